"""`jumbot completion`: what real shells offer once they have read the script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jumbot.cli import main
from jumbot.methods import METHODS

ASKED = {
    "jumbot ada": {"adapt"},
    "jumbot adapt --me": {"--method"},
    "jumbot adapt a b --method ": set(METHODS),
    "jumbot adapt --recipe table-": {"table-partial"},
    "jumbot compare a --methods jumbot da": {"dann"},
    "jumbot tune --eta": set(),  # what tune chooses
    "jumbot reproduce theo": {"theorem1"},
    "jumbot completion ": {"bash", "zsh", "fish"},
    "jumbot adapt --method jumbot ": set(),  # files, which the shell knows
    "jumbot adapt --out mcc": set(),
}
BASH = """source "$1"
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ "$line" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _jumbot; echo "${COMPREPLY[*]}"
done
complete -p jumbot
"""


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    file = folder / f"completion.{shell}"
    file.write_text(capsys.readouterr().out)
    return file


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_what_fits_and_files_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("bash", tmp_path, capsys)
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", str(file)],
        input="\n".join(ASKED) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    *offered, registered = done.stdout.splitlines()
    assert [set(line.split()) for line in offered] == list(ASKED.values())
    assert registered == "complete -o default -F _jumbot jumbot"
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_reads_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("zsh", tmp_path, capsys)
    code = f"source {file}; print -r -- ${{_comps[jumbot]}}"
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, check=True)
    assert "_jumbot" in done.stdout


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_offers_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("fish", tmp_path, capsys)
    asked = {line: words for line, words in ASKED.items() if words and "--methods" not in line}
    code = f"source {file}; for line in $argv; complete -C $line; echo .; end"
    done = subprocess.run(["fish", "--no-config", "-c", code, *asked], capture_output=True, text=True, check=True)
    offered = done.stdout.split(".\n")[:-1]
    assert [{line.split()[0] for line in part.splitlines()} for part in offered] == list(asked.values())
