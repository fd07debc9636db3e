"""Waymo Open Motion, read without TensorFlow: records, their checksums, and the scenarios in them."""

from vnt.data.waymo.scenario import parse_scenario as parse_scenario
from vnt.data.waymo.scenario import read_scenarios as read_scenarios
from vnt.data.waymo.tfrecord import read_records as read_records
