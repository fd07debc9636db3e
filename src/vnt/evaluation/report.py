"""One self-contained HTML page: tables and pictures, no scripts, no network."""

import base64
import html
import io
from dataclasses import dataclass, field

from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: .8rem 0; } th, td { padding: .3rem .6rem; text-align: left; }
th { border-bottom: 2px solid #888; } tr:nth-child(even) td { background: #f5f6f8; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
img { max-width: 100%; height: auto; } .note { color: #555; } code { background: #f0f1f3; padding: 0 .25em; }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #e6e6e6; } tr:nth-child(even) td { background: #20242a; } .note { color: #aaa; }
  code { background: #2a2e35; } img { background: #fff; border-radius: 4px; }
}
"""


@dataclass
class Page:
    """A page that grows from top to bottom."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A section begins."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph of plain words."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def note(self, text: str) -> None:
        """A paragraph in a quieter voice."""
        self.parts.append(f'<p class="note">{html.escape(text)}</p>')

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """A table; columns of numbers stand on the right."""
        head = "".join(f"<th{_side(rows, i)}>{html.escape(name)}</th>" for i, name in enumerate(header))
        body = "".join(
            "<tr>" + "".join(f"<td{_side(rows, i)}>{html.escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
            for row in rows
        )
        self.parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def figure(self, figure: Figure, about: str) -> None:
        """A picture, inside the page, with words for those who do not see it."""
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=110, facecolor="white")
        data = base64.b64encode(stream.getvalue()).decode()
        self.parts.append(f'<figure><img alt="{html.escape(about)}" src="data:image/png;base64,{data}"></figure>')
        self.note(about)

    def html(self) -> str:
        """The page as text."""
        title = html.escape(self.title)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
            f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n" + "\n".join(self.parts) + "\n</body></html>\n"
        )


def _side(rows: list[list[str]], column: int) -> str:
    """Of a column of numbers, some of which may be missing."""
    cells = [row[column] for row in rows if row[column] not in ("", "–")]
    return ' class="number"' if cells and all(cell[0].isdigit() for cell in cells) else ""
