import subprocess
import sys
from types import ModuleType

import vnt.data


def test_every_name_is_what_it_says_before_and_after_its_first_use():
    """A submodule of the same name would take its place as soon as it is imported."""
    for name in vnt.data.__all__:
        first, second = getattr(vnt.data, name), getattr(vnt.data, name)
        assert first is second, name
        assert isinstance(first, ModuleType) == (name == "transforms"), name


def test_convert_is_a_function_in_a_fresh_process():
    program = (
        "import vnt.data; vnt.data.recordings_in; assert callable(vnt.data.convert) and callable(vnt.data.convert)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
