"""A page of runs in a browser: its charts zoom, hide and are read; without scripts it has its picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.commands import report
from txjax.report.theme import DARK, LIGHT

from helpers.browser import opened
from helpers.logged_runs import logged_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim(
        "Logs", "in a browser the charts of a run's page zoom, hide lines and are read at a step, all at once"
    ),
]

LOSS, RATE = 0, 1


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[dict] = [{"train/loss": 5 - i / 200, "train/lr": i / 1000} for i in range(1, 401)]
    rows[299]["train/loss"] = "NaN"
    for i in range(99, 400, 100):
        rows[i]["eval/valid/loss"] = 6 - i / 200
    run = logged_run(tmp_path_factory.mktemp("report") / "run", rows)
    assert report.run([str(run)]) == 0
    return run / "report" / "index.html"


def legend(page: Any, chart: int) -> dict[str, str]:
    """What the legend of a chart says: a text for each name."""
    rows = page.locator("#charts .uplot").nth(chart).locator(".u-series:visible")
    return {row.locator(".u-label").inner_text(): row.locator(".u-value").inner_text() for row in rows.all()}


def point_at(page: Any, share: float) -> None:
    """Moves the pointer to a share of the width of the first chart."""
    box = page.locator("#charts .u-over").first.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_one_cursor_reads_all_charts(page_file: Path) -> None:
    with opened(page_file) as page:
        point_at(page, 0.5)
        loss, rate = legend(page, LOSS), legend(page, RATE)
        step = int(loss["step"].replace(",", ""))
        assert 1950 <= step <= 2050 and rate["step"] == loss["step"]
        assert float(loss["train"]) == pytest.approx(5 - step / 2000, abs=1e-4)
        assert float(rate["train/lr"]) == pytest.approx(step / 10_000, abs=1e-5)
        assert loss["valid"] == "5.005" if step == 2000 else loss["valid"] == "5.005 (step 2,000)"
        assert set(loss) == {"step", "train", "valid"}  # the moving average has no entry


def test_a_value_that_is_not_finite_is_read_as_none(page_file: Path) -> None:
    with opened(page_file) as page:
        point_at(page, 299 / 399)
        loss = legend(page, LOSS)
        assert loss["step"] == "3,000" and loss["train"] == "–" and loss["valid"] == "4.505"


def test_a_drag_zooms_all_charts_and_a_double_click_shows_all(page_file: Path) -> None:
    with opened(page_file) as page:
        point_at(page, 0.5)
        page.mouse.down()
        point_at(page, 0.75)
        page.mouse.up()
        point_at(page, 0.001)
        first = int(legend(page, LOSS)["step"].replace(",", ""))
        assert 1950 <= first <= 2050 and legend(page, RATE)["step"] == legend(page, LOSS)["step"]
        point_at(page, 0.999)
        assert 2950 <= int(legend(page, RATE)["step"].replace(",", "")) <= 3050
        page.mouse.dblclick(*middle(page))
        point_at(page, 0.001)
        assert legend(page, LOSS)["step"] == legend(page, RATE)["step"] == "10"


def middle(page: Any) -> tuple[float, float]:
    box = page.locator("#charts .u-over").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_click_on_a_name_hides_its_line_and_its_average(page_file: Path) -> None:
    with opened(page_file) as page:
        chart = page.locator("#charts .uplot").first
        name = chart.get_by_text("train", exact=True)
        shown = blue_pixels(chart)
        name.click()
        assert blue_pixels(chart) < shown / 10
        assert chart.locator(".u-series.u-off:visible .u-label").all_inner_texts() == ["train"]
        name.click()
        assert blue_pixels(chart) == shown


def blue_pixels(chart: Any) -> int:
    """The number of pixels of a chart that have the colour of the first line."""
    chart.page.wait_for_timeout(100)  # it is drawn in the next frame
    size = chart.locator("canvas").evaluate("it => [it.width, it.height]")
    pixels = chart.locator("canvas").evaluate(
        "(it, size) => [...it.getContext('2d').getImageData(0, 0, ...size).data]", size
    )
    _, _, blue, _ = channels = np.asarray(pixels).reshape(-1, 4).T
    return int(np.sum(blue - channels[0] > 100))


def test_colors_follow_the_screen(page_file: Path) -> None:
    with opened(page_file, color_scheme="light") as page:
        markers = page.locator("#charts .uplot").first.locator(".u-series:visible .u-marker:visible")
        for scheme, theme in (("light", LIGHT), ("dark", DARK)):
            page.emulate_media(color_scheme=scheme)
            shown = markers.evaluate_all("all => all.map(marker => getComputedStyle(marker).borderColor)")
            assert shown == ["rgb({}, {}, {})".format(*bytes.fromhex(color[1:])) for color in theme.lines[:2]]


def test_without_scripts_the_picture_is_there(page_file: Path) -> None:
    with opened(page_file, java_script_enabled=False) as page:
        assert page.locator(".curves picture img").is_visible() and page.locator("#charts").count() == 0
    with opened(page_file) as page:
        assert page.locator(".curves picture").count() == 0 and page.locator("#charts canvas").count() == 2
