"""Pictures of clouds and tracks."""
