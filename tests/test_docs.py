"""The python blocks of README.md and docs/ run, and print what the page says that they print."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import judge_quickly

ROOT = Path(__file__).resolve().parent.parent
BUILT = {"_build", "gallery"}
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not BUILT & set(page.relative_to(ROOT).parts)
]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: pages that train many models, ten to eighty seconds each; README.md and the others are quick
TRAINING = {"data", "shipping", "tutorial", "choosing"}
#: needed by one block of a page, and not installed everywhere
OPTIONAL = {"datasets", "jax", "ott"}


@dataclass(frozen=True)
class Block:
    """A python block, the line that it starts on, and what the page says that it prints."""

    code: str
    line: int
    output: str | None


def blocks(text: str) -> list[Block]:
    found = []
    fences = list(FENCE.finditer(text))
    for fence, following in itertools.zip_longest(fences, fences[1:]):
        if fence[1].strip() != "python":
            continue
        adjacent = following is not None and not text[fence.end() : following.start()].strip()
        output = following[2].strip() if following and adjacent and following[1].strip() == "text" else None
        found.append(Block(fence[2], text.count("\n", 0, fence.start()) + 2, output))
    return found


def run(page: Path, text: str) -> None:
    namespace: dict[str, object] = {"__name__": "__docs__"}
    missing = None
    for block in blocks(text):
        printed = io.StringIO()
        # Leading newlines make the line numbers of a traceback those of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in OPTIONAL:
                raise
            continue
        if block.output is not None:
            assert printed.getvalue().strip() == block.output, f"{page.name}, line {block.line}"
    if missing:
        pytest.skip(f"a block needs {missing}; the others ran")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.stem in TRAINING else page for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page.stem == "README":  # it prints nothing that judging has a part in
        judge_quickly(monkeypatch)
    run(page, page.read_text(encoding="utf-8"))


def test_blocks_are_found_with_their_output() -> None:
    text = "# A\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python no-run\n1/0\n```\n"
    assert blocks(text) == [Block("print(1)\n", 4, "1")]


def test_wrong_output_fails() -> None:
    with pytest.raises(AssertionError, match="line 2"):
        run(Path("page.md"), "```python\nprint(1)\n```\n```text\n2\n```\n")


def test_the_guide_has_examples() -> None:
    assert sum(len(blocks(page.read_text(encoding="utf-8"))) for page in PAGES) > 20


def test_the_authors_stand_in_the_order_of_the_paper() -> None:
    order = re.compile(r"Fatras, (?:\w\. )?S[eé]journ[eé], (?:\w\. )?(\w+)")
    found = {
        str(page): order.findall(page.read_text(encoding="utf-8"))
        for page in [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    }
    assert sum(map(len, found.values())) >= 4
    assert {page: names for page, names in found.items() if set(names) - {"Courty"}} == {}


def test_every_message_of_the_troubleshooting_page_exists() -> None:
    """What stands in italics there is what the source says, numbers and names apart."""
    page = (
        (ROOT / "docs/adaptation/folder.md").read_text(encoding="utf-8").partition("## Troubleshooting by message")[2]
    )
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    messages = [message for row in rows[1:] for message in re.findall(r"\*([^*]+)\*", row)]
    assert len(messages) > 15
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/jumbot").rglob("*.py"))
    source = re.sub(r"\{[^{}]*\}", "#", re.sub(r'"\s*\n\s*(?:f|rf)?"', "", source))
    for message in messages:
        words = re.escape(re.sub(r"\bX\b|\bN\b|\bHOST\b|\b3\b|\(\.\.\.\)", "#", message)).replace(r"\#", ".{1,60}?")
        assert re.search(words, source), message


def test_every_environment_variable_is_documented() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/jumbot").rglob("*.py"))
    names = set(re.findall(r'environ(?:\.get|\.setdefault|\.pop)?[\[(]\s*"([A-Z_]+)"', source))
    page = (ROOT / "docs/adaptation/folder.md").read_text(encoding="utf-8")
    assert {"JUMBOT_CACHE", "JUMBOT_DATA"} <= names
    assert all(f"`{name}`" in page for name in names), names


PHRASES = (
    "came in;",
    "goes on with",
    "go on with",
    "is of no use",
    "holds a run already",
    "which is not offered",
    "nothing in it varies",
    "handed over",
    "hands over",
    "lets go of",
    "is heard",
    "learned by heart",
    "mends that",
    "in the mean of",
    "cannot be had",
    "there is no such",
    "holds NaN",
    "passed over: the checkpoint",
    "is no archive",
    "is no option",
    "is no command",
    "things are in the way",
    "This would do",
    "stands for it",
    "the most evidence",
    "is spread alike",
    "are spread alike",
    "surely better",
    "the evidence is even",
    "of the class sizes",
    "weights of the cost",
    "first of all, the data",
    "told to go on",
    "exists already",
    "copies of each other; a row that is there",
    "is answered with NaN",
    "as they were measured",
    "bring them to one shape",
    "no accuracy counts",
    "join alike",
    "counts as a coordinate",
    "leads to no file",
    "is advised against",
    "count alike",
    "mostly taken for",
    "beside other work",
    "nobody can tell",
    "wisdom",
    "with an eye on",
    "Files from strangers",
    "Going on, and again",
    "is refused by its name",
    "are refused by name",
    "is refused there",
    "takes them over",
    "spares steps",
    "answered by our solvers",
    "Everybody as people call them",
    "In brackets stands",
    "What stands on this page",
    "How something goes away",
    "not to be had",
    "a source of its own",
    "so it was not done",
    "waited for without end",
    "has a say",
    "what becomes of",
    "says nothing of",
    "has no use for",
    "nobody knows",
    "halves of characters",
)


def test_the_prose_is_plain() -> None:
    """Phrases that read as translated occur nowhere; CONTRIBUTING says how messages are written."""
    pages = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    found = [f"{page}: {phrase}" for page in pages for phrase in PHRASES if phrase in page.read_text(encoding="utf-8")]
    assert not found
