"""What is in an installation of Bayplan, as a CycloneDX bill of materials: names, versions, licences.

It reads what is installed, not what was asked for. Run by ``make sbom`` and by the Dockerfile, which has no
other file of the project at that moment: this one stands alone, beside ``packaging``.
"""

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_LONGEST_LICENCE_NAME = 60  # some put the whole text into the field


def bill_of_materials(wanted: str, site: Sequence[str]) -> dict[str, Any]:
    """The bill for a requirement, such as ``bayplan[cel]``, as it is installed in the folders ``site``."""
    installed: dict[str, Distribution] = {
        canonicalize_name(one.name): one for one in distributions(path=list(site))
    }
    root = Requirement(wanted)
    needs = _closure(root, installed)
    top = canonicalize_name(root.name)
    components = [_component(installed[name], "library") for name in sorted(needs) if name != top]
    body = {
        "metadata": {"component": _component(installed[top], "application")},
        "components": components,
        "dependencies": [
            {
                "ref": _purl(installed[name]),
                "dependsOn": [_purl(installed[one]) for one in sorted(needs[name])],
            }
            for name in sorted(needs)
        ],
    }
    # The same contents have the same number, so that a build can be repeated.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        **body,
    }


def _closure(root: Requirement, installed: Mapping[str, Distribution]) -> dict[str, set[str]]:
    """Everything that is needed, with what each needs itself."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [root]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in installed:
            raise SystemExit(f"{requirement} is needed and not installed: install {root} first")
        needs.setdefault(name, set())
        # Without an extra there is one pass as well; "" is how a marker says that.
        for extra in {"", *requirement.extras} - {known for of, known in seen if of == name}:
            seen.add((name, extra))
            for more in map(Requirement, installed[name].requires or ()):
                if more.marker is None or more.marker.evaluate({"extra": extra}):
                    needs[name].add(canonicalize_name(more.name))
                    waiting.append(more)
    return needs


def _purl(one: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.name)}@{one.version}"


def _component(one: Distribution, kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": _purl(one),
        "name": one.name,
        "version": one.version,
        "licenses": _licences(one),
        "purl": _purl(one),
    }


def _licences(one: Distribution) -> list[dict[str, Any]]:
    """What the package says of itself: an SPDX expression, a short text, or classifiers."""
    about = one.metadata.json
    if expression := about.get("license_expression"):
        return [{"expression": expression}]
    text = str(about.get("license", "")).strip()
    if text and "\n" not in text and len(text) <= _LONGEST_LICENCE_NAME:
        return [{"license": {"name": text}}]
    classifiers = [line for line in about.get("classifier", ()) if line.startswith("License :: ")]
    return [{"license": {"name": line.rpartition(" :: ")[2]}} for line in classifiers]


def main() -> None:
    """Write the bill: ``sbom.py REQUIREMENT FILE [SITE-PACKAGES...]``."""
    wanted, out, *site = sys.argv[1:]
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bill_of_materials(wanted, site or sys.path), indent=2) + "\n")


if __name__ == "__main__":
    main()
