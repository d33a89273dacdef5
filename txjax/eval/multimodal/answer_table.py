"""The scores of answers with their images and with others in one table, and the answers below it."""

from collections.abc import Mapping, Sequence

from txjax.data import Turn


def list_answers(
    scores: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
    endings: Sequence[str],
    turns: Sequence[Turn],
    outputs: Sequence[str],
    count: int | None,
) -> str:
    """The content of the file: the table of the scores, then question, answer and output of the first `count`.

    A row of the table is a score, its columns the `endings` of its name: "" is the right images.

    Args:
      intervals: of the scores, by name.
    """
    names = [name for name in scores if not any(ending and name.endswith(ending) for ending in endings)]
    width = max(map(len, names), default=0)
    heads = [ending.removeprefix("_") or "images" for ending in endings]
    lines = [" " * width + "".join(f"  {head:<20}" for head in heads).rstrip()]
    for name in names:
        cells = [_show(scores.get(name + ending), intervals.get(name + ending)) for ending in endings]
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:<20}" for cell in cells).rstrip())
    parts = ["\n".join(lines)]
    for turn, output in list(zip(turns, outputs, strict=True))[:count]:
        parts.append(f"question: {turn.question}\nanswer: {turn.answer}\noutput: {output}")
    return "\n\n".join(parts) + "\n"


def _show(score: float | None, bounds: tuple[float, float] | None) -> str:
    """A score and its interval."""
    if score is None:
        return ""
    return f"{score:.3f}" if bounds is None else f"{score:.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}]"
