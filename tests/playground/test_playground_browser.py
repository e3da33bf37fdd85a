"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import itertools
import re
import shutil

import pytest
from playground_fakes import Running, save_room_agent

from usfa.playground import Catalogue, Limits

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine: apt install chromium")

# As root, without a graphics card, and without the browser's own requests to its maker.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT = 60_000  # milliseconds; a busy machine is slow
WIDE, NARROW, PHONE = (1280, 800), (1024, 768), (390, 844)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(catalogue):
    server = Running(catalogue, limits=Limits())
    yield server
    server.stop()


@pytest.fixture
def visit(browser, site):
    """Open the page; errors in the browser and requests to other servers fail the test."""
    contexts, errors = [], []

    def open_page(size=WIDE, scheme="light", url=site.url):
        context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: request.url.startswith(url) or errors.append(request.url))
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    unexpected = [text for text in errors if "ERR_CONNECTION_REFUSED" not in text and "WebSocket" not in text]
    assert unexpected == []


def expect(locator):
    return playwright.expect(locator)


playwright.expect.set_options(timeout=TIMEOUT)


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def pause(page):
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Resume")
    page.wait_for_timeout(200)


def wait_until_it_moves(page):
    before = page.locator(".picture").evaluate("canvas => canvas.toDataURL()")
    page.wait_for_function("before => document.querySelector('.picture').toDataURL() !== before", arg=before)


def choose_trip(page):
    page.locator("#agent-0").select_option("trip")
    page.wait_for_selector("body[data-ready=trip]")


def preset(page, task):
    return page.locator(f'#presets button[data-task="{task}"]')


def drag(page, slider, share):
    """Pull a slider with the mouse to a share of its length."""
    box = page.locator(slider).bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * share, middle, steps=5)
    page.mouse.up()


def test_the_agent_is_shown_at_once_and_moves(visit):
    page = visit()
    expect(page.locator("#status")).to_have_text("Connected")
    assert page.locator("#agent-0").input_value() == "small"
    expect(page.locator(".q .bar")).to_have_count(8)
    expect(page.locator(".q .bar.chosen")).to_have_count(1)
    expect(page.locator("#sliders .slider")).to_have_count(4)
    wait_until_it_moves(page)
    expect(page.locator("#legend li").first).to_contain_text("small")


def test_dragging_a_slider_changes_the_task_and_the_decision(visit):
    page = visit()
    pause(page)
    expect(page.locator(".q .number").first).not_to_be_empty()
    before = texts(page, ".q .number")
    drag(page, "#w-0", 0.02)
    drag(page, "#w-3", 0.98)
    expect(page.locator("#sliders output").nth(3)).to_have_text(re.compile(r"\+0\.9|\+1\.0"))
    expect(page.locator("#sliders output").nth(0)).to_have_text(re.compile(r"−0\.9|−1\.0"))
    expect(page.locator(".q .number")).not_to_have_text(before)
    preset(page, "0100").click()
    assert texts(page, "#sliders output") == ["0.00", "+1.00", "0.00", "0.00"]


def test_another_task_is_another_behaviour(visit):
    page = visit()
    pause(page)
    actions = set()
    for preset in page.locator("#presets button").all():  # in the same state, all of them
        page.evaluate("() => void delete document.body.dataset.latency")
        preset.click()
        page.wait_for_selector("body[data-latency]")
        actions.add(page.locator(".q .bar.chosen .label").text_content())
    assert len(actions) > 1


def test_copy_as_python_is_the_task_and_the_candidates(visit):
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    preset(page, "0100").click()
    page.locator("#copy").click()
    expect(page.locator("#banner")).to_have_text("Copied.")
    code = page.evaluate("() => navigator.clipboard.readText()")
    assert 'candidates="train"' in code
    assert 'rule="cautious"' in code
    assert "task=[0, 1, 0, 0]" in code
    compile(code, "copied", "exec")


def test_the_candidate_set_can_be_chosen_and_made(visit):
    page = visit()
    names = page.locator(".values .label")
    expect(names).to_have_text(["1000", "0100"])
    page.locator(".candidates").select_option("train+task")
    expect(names).to_have_text(["1000", "0100", "w′"])
    page.locator(".candidates").select_option("sample:30")
    expect(page.locator(".values.columns i")).to_have_count(30)
    page.locator(".candidates").select_option("own")
    page.locator(".candidates").select_option("train")
    expect(names).to_have_text(["1000", "0100"])
    page.locator(".candidates").select_option("own")
    preset(page, "-11-10").first.click()
    page.locator(".add").click()
    expect(names).to_have_text(["1000", "0100", "−11−10"])
    page.get_by_role("button", name="Remove z = 1000").click()
    expect(names).to_have_text(["0100", "−11−10"])
    expect(page.locator(".values .bar.chosen")).to_have_count(1)


def test_the_rule_can_be_chosen_and_what_it_does_is_shown(visit):
    page = visit()
    pause(page)
    page.locator("#reset").click()
    expect(page.locator(".rule option")).to_have_text(["cautious", "steady", "gpi (Eq. 3)", "follow"])
    expect(page.locator(".rule")).to_have_value("cautious")
    expect(page.locator(".hint")).to_contain_text("the value of following z")
    expect(page.locator(".share")).to_be_empty()
    before = texts(page, ".values .number")
    page.locator(".rule").select_option("gpi")
    expect(page.locator(".kind")).to_have_text("USFA, C = M, Eq. 3")
    expect(page.locator(".hint")).to_contain_text("the value of z’s best action")
    expect(page.locator(".values .number")).not_to_have_text(before)
    page.locator(".rule").select_option("follow")
    expect(page.locator(".kind")).to_have_text("USFA, C = M, follow")
    expect(page.locator(".relation")).to_have_text(re.compile(r"^follows (1000|0100)$"))
    trusted = page.locator(".values .bar.chosen .label").text_content()
    expect(page.locator(".relation")).to_have_text(f"follows {trusted}")
    page.locator("#step").click()
    expect(page.locator(".share")).to_have_text("followed 100 %, improved 0 %")


def test_an_improving_step_says_on_which_policy(visit):
    page = visit()
    pause(page)
    page.locator(".rule").select_option("gpi")
    for preset in page.locator("#presets button").all():
        page.evaluate("() => void delete document.body.dataset.latency")
        preset.click()
        page.wait_for_selector("body[data-latency]")
        if page.locator(".relation").get_attribute("data-improves") == "true":
            break
    expect(page.locator(".relation")).to_have_text(re.compile("^improves on (1000|0100)$"))


def test_one_click_compares_eq_3_with_cautious(visit):
    page = visit()
    pause(page)
    page.locator("#seed").fill("7")
    page.locator("#reset").click()
    expect(page.locator("#compare-rules")).to_have_text("Eq. 3 against cautious")
    page.locator("#compare-rules").click()
    expect(page.locator(".player")).to_have_count(2)
    expect(page.locator("#compare-rules")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#versus")).to_be_hidden()
    expect(page.locator(".kind")).to_have_text(["USFA, C = M, Eq. 3", "USFA, C = M, cautious"])
    expect(page.locator("#legend li").first).to_contain_text("Eq. 3")
    expect(page.locator("#legend li").nth(1)).to_contain_text("cautious")
    expect(page.locator(".relation")).to_have_text([re.compile("1000|0100")] * 2)
    assert page.locator("#seed").input_value() == "7"
    page.locator(".rule").nth(1).select_option("follow")  # the legend goes along
    expect(page.locator("#legend li").nth(1)).to_contain_text("follow")
    page.locator("#compare").click()  # from one comparison to the other
    expect(page.locator(".name")).to_have_text(["small", "small-uvfa"])
    expect(page.locator(".kind").first).to_have_text("USFA, C = M, cautious")
    expect(page.locator(".rule").nth(1)).to_be_hidden()
    page.locator("#compare-rules").click()
    expect(page.locator(".name")).to_have_text(["small", "small"])
    page.locator("#compare-rules").click()
    expect(page.locator(".player")).to_have_count(1)
    expect(page.locator(".rule")).to_have_value("cautious")


def test_an_agent_with_advantage_learning_is_compared_under_its_own_default(visit, tmp_path):
    path = save_room_agent(tmp_path / "gap", training={"learner": {"action_gap": 0.9}})
    server = Running(Catalogue([path]), limits=Limits())
    try:
        page = visit(url=server.url)
        pause(page)
        expect(page.locator("#compare-rules")).to_have_text("Eq. 3 against steady")
        page.locator("#compare-rules").click()
        expect(page.locator(".kind")).to_have_text(["USFA, C = M, Eq. 3", "USFA, C = M, steady"])
    finally:
        server.stop()


def test_two_agents_begin_in_the_same_layout(visit):
    page = visit()
    pause(page)
    page.locator("#compare").click()
    expect(page.locator(".player")).to_have_count(2)
    expect(page.locator(".name")).to_have_text(["small", "small-uvfa"])
    page.wait_for_function(
        """() => {
          const [one, two] = [...document.querySelectorAll(".picture")].map(canvas => canvas.toDataURL());
          return one === two && document.querySelectorAll(".q .bar.chosen").length === 2;
        }"""
    )
    expect(page.locator(".no-psi").nth(1)).to_be_visible()
    page.locator("#agent-1").select_option("small")  # the same agent, with another candidate set
    expect(page.locator(".kind")).to_have_text(["USFA, C = M, cautious", "USFA, C = {w′}, cautious"])
    page.locator("#compare").click()
    expect(page.locator(".player")).to_have_count(1)


def test_the_page_comes_back_after_the_server_was_gone(catalogue, visit):
    server = Running(catalogue)
    page = visit(url=server.url)
    preset(page, "-1101").click()
    page.wait_for_selector("body[data-latency]")
    page.locator(".rule").select_option("follow")
    expect(page.locator(".kind")).to_have_text("USFA, C = M, follow")
    server.stop()
    expect(page.locator("#banner")).to_contain_text("Connection lost")
    expect(page.locator("#status")).to_have_text("Disconnected")
    again = Running(catalogue, port=server.port)
    try:
        expect(page.locator("#status")).to_have_text("Connected")
        expect(page.locator("#banner")).to_be_hidden()
        assert texts(page, "#sliders output") == ["−1.00", "+1.00", "0.00", "+1.00"]
        expect(page.locator(".rule")).to_have_value("follow")
        wait_until_it_moves(page)
    finally:
        page.close()
        again.stop()


def test_the_trip_is_a_graph_and_its_heat_map_sets_the_task(visit):
    page = visit()
    choose_trip(page)
    expect(page.locator(".mdp svg path")).to_have_count(10)
    expect(page.locator('.mdp svg path[stroke="var(--mine)"]')).not_to_have_count(0)
    page.locator("#show-heatmap").click()
    page.locator("#heatmap-quantity").select_option("gap")
    page.locator("#heatmap-resolution").select_option("5")
    page.locator("#heatmap-start").click()
    expect(page.locator("#heatmap-status")).to_contain_text(
        "Done. Rule: cautious. Exact values. ◆ marks the tasks of M"
    )
    expect(page.locator("#heatmap-episodes")).to_be_hidden()
    canvas = page.locator("#heatmap-canvas")
    canvas.focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    assert texts(page, "#sliders output") == ["+0.50", "+1.00"]
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 70, box["y"] + 20)  # the upper left corner
    assert texts(page, "#sliders output") == ["−1.00", "+1.00"]


def test_ratings_move_the_sliders_and_show_what_is_unknown(visit):
    page = visit()
    choose_trip(page)
    preset(page, "01").first.click()
    pause(page)
    page.locator("#reset").click()
    for _ in range(2):  # a trip takes one step or two, and the next one begins without a past
        page.locator("#step").click()
        page.wait_for_timeout(200)
        if page.locator(".collected").text_content().strip("0"):
            break
    page.locator("#good").click()
    expect(page.locator("#estimate")).to_contain_text("1 rating.")
    expect(page.locator("#estimate")).to_contain_text("±")
    expect(page.locator(".uncertainty").first).to_be_visible()
    page.locator("#clear-ratings").click()
    expect(page.locator(".uncertainty").first).to_be_hidden()


def test_everything_can_be_done_with_the_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#w-0")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#sliders output").first).to_have_text("+0.95")
    page.locator("body").click(position={"x": 5, "y": 500})
    page.keyboard.press("Space")
    expect(page.locator("#pause")).to_have_text("Resume")
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help-dialog")).to_be_hidden()
    page.keyboard.press("h")
    expect(page.locator("#heatmap")).to_be_visible()


def test_sliders_fill_from_zero_and_a_task_of_zeros_is_explained(visit):
    page = visit()
    pause(page)
    preset(page, "-1100").click()
    fills = [
        [float(value) for value in page.locator(f"#w-{index}").evaluate(
            "e => ['--low', '--high'].map(name => e.style.getPropertyValue(name))"
        )]
        for index in range(3)
    ]  # fmt: skip
    assert fills == [[0, 0.5], [0.5, 1], [0.5, 0.5]]
    colours = [page.locator("#sliders output").nth(n).evaluate("e => getComputedStyle(e).color") for n in (0, 1)]
    assert colours[0] != colours[1]
    expect(page.locator("#nothing")).to_be_hidden()
    for index in (0, 1):
        page.locator(f"#w-{index}").dblclick()
    expect(page.locator("#nothing")).to_contain_text("w = 0 rewards nothing")


def test_presets_show_pictures_and_cross_out_what_is_unwanted(visit):
    page = visit()
    names = [picture.rsplit("/", 1)[1] for picture in preset(page, "-1101").first.locator("img").evaluate_all(
        "pictures => pictures.map(picture => picture.src)"
    )]  # fmt: skip
    assert names == ["ball.png", "balloon.png", "tv.png"]  # wanted ones first
    expect(preset(page, "-1101").first.locator(".unwanted img")).to_have_attribute("src", "objects/tv.png")
    expect(preset(page, "-1101").first).to_have_attribute("aria-label", "Task plus ball plus balloon minus tv")


def test_bars_of_q_begin_at_zero_and_tell_the_differences(visit):
    page = visit()
    pause(page)
    shown = [float(text.replace("−", "-")) for text in texts(page, ".q .number")]
    differences = texts(page, ".q .difference")
    best = max(range(8), key=lambda index: shown[index])
    assert "best" in differences
    for value, difference in zip(shown, differences, strict=True):
        if difference != "best":
            assert float(difference.replace("−", "-")) == pytest.approx(value - shown[best], abs=0.011)
    read = "bars => bars.map(bar => Number(bar.style.transform.match(/scaleX\\((.*)\\)/)[1]))"
    scales = page.locator(".q .bar i").evaluate_all(read)
    for value, scale in zip(shown, scales, strict=True):
        assert scale * shown[best] == pytest.approx(value * scales[best], abs=0.02)  # in proportion


def test_a_toast_moves_nothing_and_type_grows_for_talks(visit):
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    before = page.locator("main").bounding_box()
    page.locator("#copy").click()
    expect(page.locator("#banner")).to_be_visible()
    assert page.locator("main").bounding_box()["y"] == before["y"]
    page.locator("body").click(position={"x": 5, "y": 500})
    page.keyboard.press("t")
    expect(page.locator("#type")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("() => getComputedStyle(document.documentElement).fontSize") == "18px"
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    page.reload()
    page.wait_for_selector("html[data-type=large]")  # it is remembered


def test_everything_has_a_name(visit):
    page = visit()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas")]
          .filter(e => e.offsetParent && !(e.getAttribute("aria-label") || e.textContent.trim() || e.title
            || e.labels?.length || e.closest("label")))
          .map(e => e.outerHTML)"""
    )
    assert nameless == []


PARTS = (".top", ".front", ".side", ".sliders", ".ratings", ".transport", ".returns")


def overlap(one, other):
    return all(
        max(one[start], other[start]) < min(one[start] + one[size], other[start] + other[size])
        for start, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize(
    ("size", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (PHONE, "dark")],
    ids=["wide-light", "wide-dark", "narrow-light", "phone-dark"],
)
def test_it_fits_the_screen_in_both_colour_schemes(visit, size, scheme, tmp_path):
    page = visit(size, scheme)
    for compare in (False, True):
        if compare:
            page.locator("#compare").click()
            expect(page.locator(".player")).to_have_count(2)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        boxes = [part.bounding_box() for name in PARTS for part in page.locator(name).all()]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= size[0] for box in boxes)
        assert not any(overlap(one, other) for one, other in itertools.combinations(boxes, 2))
        bars = [bar.bounding_box() for bar in page.locator(".q .bar .track").all()]
        assert min(bar["width"] for bar in bars) >= 48  # of both players
        page.locator("#show-heatmap").click()
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        page.locator("#show-values").click()
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(channel) for channel in re.findall(r"\d+", background)[:3]) / 3
    assert brightness < 60 if scheme == "dark" else brightness > 200
    page.screenshot(path=tmp_path / "page.png")
