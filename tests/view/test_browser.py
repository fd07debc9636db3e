"""The page in a real browser: it loads, turns, answers, refuses what is not a cloud, and does not complain."""

import io
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from vnt.data.cloud import Cloud
from vnt.view.content import make_content
from vnt.view.gallery import gallery_page
from vnt.view.page import Page
from vnt.view.turning import from_angles

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
NONE = BROWSER is None or DRIVER is None
pytestmark = pytest.mark.skipif(NONE, reason="no chromium and chromedriver here (Debian: chromium chromium-driver)")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--window-size=1280,1020",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
)
PICTURES = os.environ.get("VNT_PICTURES")
"""A folder to keep screenshots in; those of the documentation were made so."""

BLUE_ARC = (66, 147, 237)  # the gizmo's ring about z


@pytest.fixture(scope="module")
def page():
    content, _ = make_content([Path(__file__).parents[2] / "examples" / "chair.off"])
    made = Page(content, port=0, start="chair", most_uploaded=2**20)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser(page):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(60)
    driver.get(page.address)
    yield driver
    said, error = complaints(driver), page.error
    driver.quit()
    assert not said
    assert error is None


@pytest.fixture(autouse=True)
def _as_it_was(page, browser):
    """Every test begins with the same scene, unturned."""
    answers(browser)
    page.open("point cloud", "chair")
    page._models.value = "built-in shapes"
    page._choose()
    until(lambda: [answer[0] for answer in answers(browser)] == ["chair", "chair"] and change(answers(browser)[0]) == 0)


def until(true, seconds: float = 30.0):
    """Wait until something holds; returns what it gave."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {seconds} s")
        time.sleep(0.05)
    return found


def answers(browser) -> list[list[str]]:
    """What the panel says of both models: class, probability, change and violation; or gap and error of forecasts."""

    def read():
        # In one script: the element is replaced with each answer.
        found = browser.execute_script(
            "const e = document.getElementById('vnt-answers'); return e && [e.dataset.ours, e.dataset.plain]"
        )
        return found and [text.split("|") for text in found if text]

    return until(read)


def change(answer: list[str]) -> float:
    return float(answer[2])


def picture(browser, name: str | None = None) -> np.ndarray:
    data = browser.get_screenshot_as_png()
    if name and PICTURES:
        Path(PICTURES, name).write_bytes(data)
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def is_like(pixels: np.ndarray, color: tuple[int, int, int], tolerance: int = 40) -> np.ndarray:
    return (np.abs(pixels - np.array(color)).max(-1) < tolerance) & (np.arange(pixels.shape[1]) < 900)


def number_of(browser, label: str):
    """The number field beside a slider."""
    return browser.find_element(By.XPATH, f"//*[text()='{label}']/ancestor::*[.//input][1]//input[@type='text']")


def dismiss_notices(browser) -> None:
    """In one script: notices come and go by themselves."""
    browser.execute_script("for (const b of document.querySelectorAll('.mantine-Notification-closeButton')) b.click()")


def drag(browser, start: tuple[int, int], by: tuple[int, int]) -> None:
    """With the mouse, in steps, as a hand does."""
    actions = ActionChains(browser, duration=30)
    actions.w3c_actions.pointer_action.move_to_location(*map(int, start))
    actions.w3c_actions.pointer_action.pause(0.5).pointer_down().pause(0.2)
    for step in range(1, 9):
        x, y = start[0] + by[0] * step // 8, start[1] + by[1] * step // 8
        actions.w3c_actions.pointer_action.move_to_location(int(x), int(y)).pause(0.1)
    actions.w3c_actions.pointer_action.pause(0.2).pointer_up()
    actions.perform()


def test_it_loads_and_shows_a_chair(browser, page):
    dismiss_notices(browser)
    ours, plain = answers(browser)
    assert ours[0] == plain[0] == "chair"
    drawn = picture(browser)[:, :900]
    assert (drawn.min(-1) < 200).sum() > 5000  # not an empty canvas


def test_sliders_turn_it_and_only_one_model_notices(browser, page):
    before = picture(browser)
    field = number_of(browser, "about x")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("75", Keys.ENTER)
    ours, _ = until(lambda: change(answers(browser)[1]) > 0.1 and answers(browser))
    assert ours[0] == "chair"
    assert 0 < change(ours) < 1e-3
    assert float(ours[3]) < 1e-4
    np.testing.assert_allclose(
        page.rotation @ [0, 1, 0], [0, np.cos(np.radians(75)), np.sin(np.radians(75))], atol=1e-9
    )
    time.sleep(1)
    assert (np.abs(picture(browser, "view-cloud.png") - before).max(-1) > 60)[:, :900].sum() > 3000


def test_the_gizmo_turns_it(browser, page):
    dismiss_notices(browser)
    time.sleep(1)
    places = np.argwhere(is_like(picture(browser), BLUE_ARC))
    assert len(places) > 50, "the gizmo's blue ring is not to be seen"
    y, x = places[len(places) // 2]
    drag(browser, (x, y), (-120, 40))
    ours, _ = until(lambda: change(answers(browser)[1]) > 0.01 and answers(browser))
    assert ours[0] == "chair"
    assert change(ours) < 1e-3
    assert not np.allclose(page.rotation, np.eye(3), atol=0.05)
    np.testing.assert_allclose(page.rotation @ page.rotation.T, np.eye(3), atol=1e-6)


def test_at_random_and_back(browser, page):
    browser.find_element(By.XPATH, "//button[contains(., 'at random')]").click()
    until(lambda: change(answers(browser)[0]) > 0)
    assert change(answers(browser)[0]) < 1e-3
    browser.find_element(By.XPATH, "//button[contains(., 'as it was')]").click()
    until(lambda: change(answers(browser)[0]) == 0)


def test_a_picked_point_paints_the_others(browser, page):
    dismiss_notices(browser)
    time.sleep(1)
    pixels = picture(browser)
    # A point, away from the gizmo's lines, in the middle of the picture.
    dots = np.argwhere((pixels[:, :900].min(-1) < 120) & (pixels[:, :900].max(-1) < 215))
    y, x = dots[np.argmin(np.abs(dots - np.median(dots, 0)).sum(-1))]
    actions = ActionChains(browser, duration=30)
    actions.w3c_actions.pointer_action.move_to_location(int(x), int(y)).pause(0.3).click()
    actions.perform()
    until(lambda: page.look.coloring.value == "attention")
    time.sleep(1.5)
    assert page.error is None
    painted = picture(browser, "view-attention.png")
    assert (np.abs(painted - pixels).max(-1) > 60)[:, :900].sum() > 1000


def test_a_malformed_upload_gets_a_message(browser, page, tmp_path):
    bad = tmp_path / "bad.off"
    bad.write_text("this is not a mesh")
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(bad))
    message = until(lambda: browser.find_elements(By.ID, "vnt-message") and message_of(browser))
    assert "bad.off" in until(lambda: "bad.off" in message_of(browser) and message_of(browser)), message
    assert answers(browser)[0][0] == "chair"


def message_of(browser) -> str:
    return browser.execute_script("return document.getElementById('vnt-message')?.textContent || ''")


def test_a_good_upload_is_shown(browser, page):
    file = Path(__file__).parents[2] / "examples" / "chair.off"
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(file))
    until(lambda: "chair.off (2): 1,024 points" in message_of(browser))  # one of that name was there
    until(lambda: answers(browser)[0][0] == "chair" and page._models.value == "ModelNet40")


def test_the_forecast_turns_with_the_frame(browser, page):
    page.open("trajectory", next(iter(page.content.tracks)))
    until(lambda: len(answers(browser)[0]) == 2 and float(answers(browser)[0][0]) == 0)
    for label, degrees in (("about x", "50"), ("about z", "80")):
        field = number_of(browser, label)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(degrees, Keys.ENTER)
    ours, _ = until(lambda: float(answers(browser)[1][0]) > 0.1 and answers(browser))
    assert float(ours[0]) < 1e-3
    dismiss_notices(browser)
    time.sleep(1)
    picture(browser, "view-track.png")


def test_a_large_cloud_is_coarse_while_it_moves(browser, page):
    points = np.random.default_rng(0).standard_normal((250_000, 3))
    page.content.clouds["large"] = (Cloud(points, attributes={"heat": points[:, 0]}), "z")
    page.open("point cloud", "large")
    until(lambda: all(node.visible for node in page.scene._nodes))
    page.turn(np.eye(3)[[1, 2, 0]])
    assert [node.visible for node in page.scene._nodes] == [True, False, False]
    until(lambda: all(node.visible for node in page.scene._nodes))
    by_height = page.scene._nodes[0].colors.copy()
    page.look.coloring.value = "heat"
    until(lambda: not np.array_equal(page.scene._nodes[0].colors, by_height))


def test_live_update(browser, page):
    """Under 100 ms on two cores that do nothing else (docs/view.md); here the best of many, for a machine that does."""
    for degrees in range(0, 90, 3):
        page.turn(from_angles(degrees, 0, 0))
        time.sleep(0.15)
    assert min(page.milliseconds[-20:]) < 200


def test_a_page_without_a_server(browser, page, tmp_path):
    file = tmp_path / "page.html"
    tracks = tuple(page.content.tracks)[:1]
    file.write_text(gallery_page(page.content, chosen=("chair", *tracks), step=30), encoding="utf-8")
    assert file.stat().st_size < 2_000_000
    assert "http://" not in file.read_text().replace("http://www.w3.org", "")
    here = browser.current_url
    try:
        browser.get(file.as_uri())
        best = until(lambda: [e.get_attribute("data-best") for e in browser.find_elements(By.CSS_SELECTOR, ".model")])
        assert best == ["chair", "chair"]
        seen = set()
        for degrees in range(-90, 91, 30):
            browser.execute_script("pitch.value = arguments[0]; pitch.dispatchEvent(new Event('input'))", str(degrees))
            seen.add(tuple(e.get_attribute("data-best") for e in browser.find_elements(By.CSS_SELECTOR, ".model")))
        assert {ours for ours, _ in seen} == {"chair"}
        assert len({plain for _, plain in seen}) > 1
        picture(browser, "gallery.png")
        canvas = browser.find_element(By.ID, "canvas")
        drag(browser, (canvas.location["x"] + 200, canvas.location["y"] + 200), (60, 30))
        assert browser.execute_script("return +yaw.value") > 0
        browser.find_element(By.XPATH, f"//button[.='{tracks[0]}']").click()
        assert "forecast" in browser.find_element(By.ID, "answers").text
        assert not complaints(browser)
    finally:
        browser.get(here)


def complaints(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_file_that_is_too_large_is_refused(browser, page, tmp_path):
    large = tmp_path / "large.xyz"
    large.write_text("0 0 0\n" * 400_000)
    known = list(page.content.clouds)
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(large))
    until(lambda: "files may have 1 MiB" in browser.execute_script("return document.body.innerText"))
    assert list(page.content.clouds) == known
    assert not page.server.gui._current_file_upload_states
    dismiss_notices(browser)


def test_names_are_words_and_not_markup(browser, page, tmp_path):
    """Of files, and of attributes that are called like a colouring of ours."""
    bad = tmp_path / "<img src=x onerror=alert(1)>.off"
    bad.write_text("no mesh")
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(bad))
    until(lambda: "<img src=x onerror=alert(1)>.off" in message_of(browser))
    points = np.random.default_rng(0).standard_normal((500, 3))
    page.content.clouds["named"] = (Cloud(points, attributes={"height": points[:, 0], "attention": points[:, 1]}), "z")
    page.open("point cloud", "named")
    until(lambda: "named: 500 points" in message_of(browser))
    assert answers(browser)
    names = page.look.coloring.options
    assert len(set(names)) == len(names)
    assert "height (of the file)" in names
