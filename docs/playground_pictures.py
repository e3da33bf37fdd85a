"""Pictures of the playground's page: a new task, USFA beside UVFA, and Eq. 3 beside the cautious rule.

python docs/playground_pictures.py [--out docs/results/playground] [--only room compare rules]
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
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

WIDTH = 1280  # pixels
PATIENCE = 400_000  # milliseconds


@dataclass(frozen=True)
class Picture:
    """What is on a picture, and when it is taken."""

    task: str  # of the presets
    button: str | None  # that sets up a comparison
    height: int  # pixels
    steps: int  # of the episode
    seed: int = 0


PICTURES = {
    "room": Picture("1100", None, 800, 104),
    "compare": Picture("1100", "#compare", 800, 104),
    "rules": Picture("-1100", "#compare-rules", 800, 322),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/playground"))
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with playground() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in arguments.only:
            page = visit(browser, url, PICTURES[name])
            save(page, PICTURES[name].steps, arguments.out / f"{name}.png")
            page.close()
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


def visit(browser: Browser, url: str, picture: Picture) -> Page:
    """The page at the start of the episode."""
    page = browser.new_page(viewport={"width": WIDTH, "height": picture.height}, color_scheme="light")
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.locator(f'#presets button[data-task="{picture.task}"]').first.click()
    if picture.button is not None:
        page.locator(picture.button).click()
        page.wait_for_selector("body[data-count='2']")
    page.wait_for_function("() => document.querySelector('.collected small').textContent")  # the oracle is there
    page.locator("#speed").select_option("2")
    page.locator("#seed").fill(str(picture.seed))
    page.locator("#reset").click()
    page.wait_for_function("() => Number(document.body.dataset.step) < 30")
    return page


def save(page: Page, steps: int, path: Path) -> None:
    """Let the episode run for so many steps."""
    page.wait_for_function("steps => Number(document.body.dataset.step) >= steps", arg=steps)
    page.locator("#pause").click()
    page.mouse.move(2, 2)
    page.evaluate("() => (document.getElementById('statistics').hidden = true)")  # how fast this machine was
    page.wait_for_timeout(500)  # bars come to rest
    Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB").save(path, optimize=True)


if __name__ == "__main__":
    main()
