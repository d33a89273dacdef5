"""Plots of a law: loss against compute, isoFLOP profiles, best N and D, residuals, and the back-test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from txjax.errors import UserError
from txjax.report.log_axis import label_log_axis
from txjax.report.png import DPI, write_figure
from txjax.report.theme import LIGHT, Theme, style_axes
from txjax.scaling.envelope import Envelope, envelope, sizes_on
from txjax.scaling.isoflop import IsoFLOP
from txjax.scaling.regression import Regression
from txjax.scaling.study import Study, interval

BEYOND = 10.0  # lines extend to this multiple of the largest budget
LABELLED = 12  # maximum number of lines in a legend
WIDE = 30.0  # intervals with a larger ratio of ends get a logarithmic axis
DRAWN = 200  # bootstrap laws used for a band


def write(study: Study, folder: Path, theme: Theme = LIGHT) -> list[Path]:
    """Writes every plot that applies to the study as PNG and SVG. Returns the paths."""
    figures = {
        "loss": _loss(study, theme),
        "profiles": _profiles(study, theme),
        "optimum": _optimum(study, theme),
        "residuals": _residuals(study, theme),
        "extrapolation": _extrapolation(study, theme),
    }
    return _save({f"{study.form.name}_{name}": figure for name, figure in figures.items() if figure}, folder)


def write_comparison(rows: Sequence[dict[str, Any]], names: tuple[str, str], folder: Path) -> list[Path]:
    """Plots the intervals of two laws side by side, one panel for each parameter."""
    figure, axes = _figure(LIGHT, columns=min(len(rows), 3), rows=-(-len(rows) // 3), inches=(3.4, 1.9))
    for panel, row in zip(axes, rows, strict=False):
        _style(panel, LIGHT, f"{row['name']}{'  (differs)' if row['differs'] else ''}", "", "")
        for y, side in enumerate("ab"):
            low, high = row[f"{side}_interval"]
            color = LIGHT.lines[y]
            panel.plot([low, high], [y, y], color=color, lw=3, alpha=0.4, solid_capstyle="round")
            panel.plot([row[side]], [y], "o", color=color, ms=6)
        ends = [end for side in "ab" for end in row[f"{side}_interval"]]
        if min(ends) > 0 and max(ends) > WIDE * min(ends):
            panel.set_xscale("log")
            label_log_axis(panel.xaxis)
        panel.set_yticks([0, 1], names)
        panel.set_ylim(1.6, -0.6)
    for panel in axes[len(rows) :]:
        panel.remove()
    return _save({"comparison": figure}, folder)


def _save(figures: dict[str, Figure], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures.items() for path in write_figure(figure, folder, name)]


def _figure(
    theme: Theme, columns: int = 1, rows: int = 1, inches: tuple[float, float] = (6.4, 4.4)
) -> tuple[Figure, list[Axes]]:
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    size = (inches[0] * columns, inches[1] * rows)
    figure = Figure(figsize=size, dpi=DPI, facecolor=theme.paper, layout=layout)
    return figure, list(np.atleast_1d(figure.subplots(rows, columns)).ravel())


def _style(axes: Axes, theme: Theme, title: str, x: str, y: str, log: str = "") -> None:
    style_axes(axes, theme, title)
    axes.set_xlabel(x, fontsize=9, color=theme.faint)
    axes.set_ylabel(y, fontsize=9, color=theme.faint)
    if "x" in log:
        axes.set_xscale("log")
        label_log_axis(axes.xaxis)
    if "y" in log:
        axes.set_yscale("log")
        label_log_axis(axes.yaxis)
    if "y" in log and y == "loss":  # which spans less than a decade
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _budgets(study: Study, flops: np.ndarray) -> dict[str, np.ndarray] | None:
    """The best run of every budget: values [n], and with draws `NAME_band` [2 n]. None if the form has no optimum."""
    if study.form.needs == ("flops",):
        return None
    try:
        best = [study.form.optimum(study.fitted.parameters, c) for c in flops]
    except UserError:
        return None
    values_by_name = {name: np.array([values[name] for values in best]) for name in ("loss", "params", "tokens")}
    laws = [law for law in study.draws if law][:DRAWN]
    optima = [[study.form.optimum(law, c) for law in laws] for c in flops[:: max(1, len(flops) // 25)]]
    for name in list(values_by_name) if laws else ():
        bands = np.array([interval([values[name] for values in budget_optima]) for budget_optima in optima]).T
        coarse = np.log(flops[:: max(1, len(flops) // 25)])
        values_by_name[f"{name}_band"] = np.exp([np.interp(np.log(flops), coarse, np.log(band)) for band in bands])
    return values_by_name


def _line(study: Study, beyond: float) -> np.ndarray:
    return np.geomspace(study.table["flops"].min(), study.table["flops"].max() * beyond, 101)


def _loss(study: Study, theme: Theme) -> Figure | None:
    if "flops" not in study.table:
        return None
    figure, (axes,) = _figure(theme)
    _style(axes, theme, "loss against compute", "training FLOPs", "loss", "xy")
    table = study.table
    if isinstance(study.form, Envelope) and table.groups is not None:
        for i, run in enumerate(dict.fromkeys(table.groups)):
            rows = np.flatnonzero(table.groups == run)
            rows = rows[np.argsort(table["flops"][rows])]
            color = theme.lines[i % len(theme.lines)]
            axes.plot(table["flops"][rows], table["loss"][rows], color=color, lw=1, alpha=0.6, label=_short(str(run)))
        flops, _, loss, _, _ = envelope(table)
        axes.plot(flops, loss, color=theme.ink, lw=2.2, label="envelope")
    else:
        axes.plot(table["flops"], table["loss"], "o", color=theme.lines[0], ms=4, alpha=0.6, mew=0, label="runs")
    flops = _line(study, BEYOND)
    best = _budgets(study, flops)
    if best:
        axes.plot(flops, best["loss"], color=theme.lines[1], lw=1.8, label="the best runs, by the law")
        _band(axes, flops, best, "loss", theme.lines[1])
    if len(axes.lines) <= LABELLED:
        axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _band(axes: Axes, x: np.ndarray, values_by_name: dict[str, np.ndarray], name: str, color: str) -> None:
    if f"{name}_band" in values_by_name:
        axes.fill_between(x, *values_by_name[f"{name}_band"], color=color, alpha=0.18, lw=0)


def _profiles(study: Study, theme: Theme) -> Figure | None:
    if not isinstance(study.form, IsoFLOP):
        return None
    figure, (axes,) = _figure(theme)
    _style(axes, theme, "IsoFLOP profiles", "parameters", "loss", "xy")
    table = study.table
    for i, profile in enumerate(study.form.profiles(table)):
        color = theme.lines[i % len(theme.lines)]
        sizes = table["params"][profile.rows]
        axes.plot(sizes, table["loss"][profile.rows], "o", color=color, ms=4, mew=0, label=f"{profile.flops:.2g}")
        if not profile.problem:
            used = table["params"][profile.used]
            line = np.geomspace(used.min(), used.max(), 60)
            axes.plot(line, profile.fitted_loss(line), color=color, lw=1.5)
            axes.plot([profile.params], [profile.loss], "D", color=color, ms=7, mec=theme.paper, mew=1)
    axes.legend(title="FLOPs", fontsize=8, title_fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _optimum(study: Study, theme: Theme) -> Figure | None:
    if "flops" not in study.table:
        return None
    flops = _line(study, BEYOND)
    best = _budgets(study, flops)
    if not best:
        return None
    figure, panels = _figure(theme, columns=2, inches=(5.2, 4.2))
    for axes, name, title in zip(panels, ("params", "tokens"), ("best parameters", "best tokens"), strict=True):
        _style(axes, theme, title, "training FLOPs", "", "xy")
        axes.plot(flops, best[name], color=theme.lines[0], lw=1.8)
        _band(axes, flops, best, name, theme.lines[0])
        if isinstance(study.form, IsoFLOP):
            good = [profile for profile in study.form.profiles(study.table) if not profile.problem]
            axes.plot([v.flops for v in good], [getattr(v, name) for v in good], "D", color=theme.lines[1], ms=6)
        if isinstance(study.form, Envelope):
            budgets, params = sizes_on(study.table)
            sizes = {"params": params, "tokens": budgets / 6 / params}
            axes.plot(budgets, sizes[name], ".", color=theme.lines[1], ms=3, mew=0)
        axes.axvspan(study.table["flops"].max(), flops[-1], color=theme.grid, alpha=0.5, lw=0)
    return figure


def _residuals(study: Study, theme: Theme) -> Figure | None:
    if not isinstance(study.form, Regression):
        return None
    table = study.table
    left = np.log(table["loss"] / study.form.loss(study.fitted.parameters, table.values)) * 100
    columns = [(r, t) for r, t in (("params", "N"), ("tokens", "D"), ("flops", "C")) if r in table]
    against = [(table[role], title) for role, title in columns]
    if "params" in table and "tokens" in table:
        against.append((table["tokens"] / table["params"], "D / N"))
    figure, panels = _figure(theme, columns=len(against), inches=(3.4, 3.2))
    for axes, (values, title) in zip(panels, against, strict=True):
        _style(axes, theme, f"residuals against {title}", title, "loss above the law, %", "x")
        axes.axhline(0, color=theme.faint, lw=1)
        axes.plot(values, left, "o", color=theme.lines[0], ms=3.5, alpha=0.6, mew=0)
    return figure


def _extrapolation(study: Study, theme: Theme) -> Figure | None:
    """Measured against predicted loss of the largest runs, by a law fitted to the others."""
    mask, points, loss = study.form.held_out(study.table)
    try:
        law = study.form.fit(study.table.take(~mask)).parameters
        predicted = study.form.loss(law, points)
    except (UserError, ValueError):
        return None
    figure, (axes,) = _figure(theme)
    _style(axes, theme, "the largest runs, predicted from the others", "predicted loss", "measured loss", "")
    shown = [(predicted, loss)]
    if isinstance(study.form, Regression):
        rest = study.table.take(~mask)
        shown.append((study.form.loss(law, rest.values), rest["loss"]))
        axes.plot(*shown[1], "o", color=theme.lines[7], ms=4, alpha=0.5, mew=0, label="fitted")
    axes.plot(*shown[0], "o", color=theme.lines[1], ms=6, mew=0, label="held out")
    both = np.concatenate([values for pair in shown for values in pair])
    ends = np.array([both.min(), both.max()]) + np.array([-0.02, 0.02]) * both.mean()
    axes.plot(ends, ends, color=theme.faint, lw=1, label="measured = predicted", zorder=1)
    axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink)
    return figure
