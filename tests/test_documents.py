"""The documents tell the truth: paths that they name are there, and generated pages are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import generate_docs

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`((?:protocol|trierarch|actors|tests|tools|examples|bench|docs)/[\w/.\-]*|[\w]+\.(?:py|md|toml))`")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "README.md", "CONFORMANCE.md", "CONTRIBUTING.md"])
def test_paths_in_documents_exist(document):
    """Every path in backquotes is a file or folder of the project."""
    named = sorted({match.group(1) for match in PATH.finditer((ROOT / document).read_text())})
    missing = [
        path for path in named if not (ROOT / path).exists() and not list((ROOT / "trierarch").glob(f"*/{path}"))
    ]
    assert not missing


def test_the_reference_is_current():
    """`docs/reference.md` is what the generator makes of the code now."""
    assert generate_docs.build_page() == (ROOT / "docs" / "reference.md").read_text()
