"""The oldest versions that the project says it works with, as constraints for pip.

    python -m tests.floors > constraints.txt

`make floors` installs exactly these into an environment of its own and runs the tests of the
adapters there.
"""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def floors(project: dict[str, object]) -> dict[str, str]:
    """The lower bound of each package that the project or an extra of its asks for."""
    bounds: dict[str, str] = {}
    dependencies = project["dependencies"]
    extras = project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    for text in [*dependencies, *(text for extra in extras.values() for text in extra)]:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            continue
        [bound] = (each for each in requirement.specifier if each.operator in {">=", "=="})
        bounds[requirement.name] = bound.version
    return bounds


if __name__ == "__main__":
    pyproject = tomllib.loads(PYPROJECT.read_text("utf-8"))
    lines = (f"{name}=={version}\n" for name, version in floors(pyproject["project"]).items())
    sys.stdout.writelines(lines)
