"""Answers of the models as a piece of HTML: bars side by side, and how much turning changed them."""

from html import escape

from vnt.view.studio import Classes, CloudStudio, Forecast

OURS, PLAIN = "#1f77b4", "#d62728"
"""Colours of the equivariant and of the ordinary model, on the page and in the gallery."""

TOP = 5


def classes_html(studio: CloudStudio, answers: dict[str, Classes], milliseconds: float) -> str:
    """The most probable classes of either model with a bar each."""
    colors = dict(zip(answers, (OURS, PLAIN), strict=False))
    best = sorted({int(i) for a in answers.values() for i in a.probabilities.argsort()[::-1][:TOP]})
    best.sort(key=lambda i: -max(float(a.probabilities[i]) for a in answers.values()))
    rows = []
    for index in best[:TOP]:
        bars = "".join(
            f'<div style="height:7px;margin:1px 0;width:{100 * float(a.probabilities[index]):.2f}%;'
            f'min-width:1px;background:{colors[name]}"></div>'
            for name, a in answers.items()
        )
        numbers = "<br>".join(
            f'<span style="color:{colors[name]}">{float(a.probabilities[index]):.1%}</span>'
            for name, a in answers.items()
        )
        rows.append(
            f'<tr><td style="width:32%">{escape(studio.name_of(index))}</td><td>{bars}</td>'
            f'<td style="width:18%;text-align:right;font-size:11px;line-height:1.1">{numbers}</td></tr>'
        )
    return _page(
        [_legend(name, colors[name], f"says {_best(studio, a)}", *_changes(a)) for name, a in answers.items()],
        f'<table style="width:100%;border-spacing:0 2px">{"".join(rows)}</table>',
        milliseconds,
        {
            name: f"{_best(studio, a)}|{float(a.probabilities.max()):.6f}|{a.change:.3e}|{a.violation:.3e}"
            for name, a in answers.items()
        },
    )


def forecasts_html(answers: dict[str, Forecast], milliseconds: float) -> str:
    """How far each forecast came apart from itself, and from what happened."""
    colors = dict(zip(answers, (OURS, PLAIN), strict=False))
    legends = []
    for name, a in answers.items():
        error = "" if a.error is None else f"{a.error:.2f} m from what came"
        legends.append(_legend(name, colors[name], error, f"turning moved its forecast by {_metres(a.gap)}", ""))
    data = {name: f"{a.gap:.3e}|{'' if a.error is None else f'{a.error:.6f}'}" for name, a in answers.items()}
    return _page(legends, "", milliseconds, data)


def _best(studio: CloudStudio, answer: Classes) -> str:
    return studio.name_of(int(answer.probabilities.argmax()))


def _changes(answer: Classes) -> tuple[str, str]:
    points = f"turning changed it by {100 * answer.change:.2g} points"
    return points, f"violation {answer.violation:.1e}"


def _metres(x: float) -> str:
    return f"{x:.2f} m" if x >= 0.01 else f"{x:.0e} m"


def _legend(name: str, color: str, *lines: str) -> str:
    said = "<br>".join(escape(line) for line in lines if line)
    return (
        f'<div style="border-left:4px solid {color};padding-left:6px;margin:4px 0;font-size:12px;line-height:1.35">'
        f"<b>{escape(name)}</b><br>{said}</div>"
    )


def _page(legends: list[str], table: str, milliseconds: float, data: dict[str, str]) -> str:
    """What people read, and the same for programs in ``data-`` attributes."""
    values = " ".join(
        f'data-{key}="{escape(value)}"' for key, value in zip(("ours", "plain"), data.values(), strict=False)
    )
    return (
        f'<div id="vnt-answers" {values} style="padding:0 0.6em 0.4em">{"".join(legends)}{table}'
        f'<div style="font-size:11px;opacity:.6">{milliseconds:.0f} ms</div></div>'
    )
