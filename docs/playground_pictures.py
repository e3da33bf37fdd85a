"""Pictures of the playground's page: an agent on a task it was never trained on, and USFA beside UVFA.

python docs/playground_pictures.py [--out docs/results/playground]
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

TASK = "1100"
COLLECTED = 12  # objects, by all players together, before the picture is taken
PATIENCE = 400_000  # milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/playground"))
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with playground() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        one = visit(browser, url, "light")
        save(one, out / "room.png")
        two = visit(browser, url, "dark")
        two.locator("#compare").click()
        save(two, out / "compare.png")
        browser.close()


@contextmanager
def playground() -> Iterator[str]:
    command = [sys.executable, "-m", "usfa", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.terminate()


def visit(browser: Browser, url: str, scheme: Literal["light", "dark"]) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.locator("#presets button", has_text=re.compile(f"^{TASK}$")).click()
    return page


def save(page: Page, path: Path) -> None:
    """Let the episode run for a while; 256 colours are enough."""
    page.locator("#reset").click()
    page.wait_for_function(
        """enough => [...document.querySelectorAll(".collected > span > span")]
          .reduce((sum, count) => sum + Number(count.textContent), 0) >= enough
          && document.querySelector(".collected small").textContent""",
        arg=COLLECTED,
    )
    page.mouse.move(2, 2)
    page.evaluate("() => (document.getElementById('pace').hidden = true)")  # how fast this machine was
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
