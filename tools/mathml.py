r"""For the documentation site: ``$...$`` and ``$$...$$`` become MathML, which browsers draw with no script and no font.

Zensical's own way, pymdownx.arithmatex, leaves formulas as LaTeX for a script from the network. This comes after it.
"""

import html
import xml.etree.ElementTree as etree

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString


class Formulas(Treeprocessor):
    """Puts MathML into each element that arithmatex has marked."""

    def run(self, root: etree.Element) -> None:
        """Change the tree in place. The formulas themselves are kept aside: nothing else may read them as Markdown."""
        for element in root.iter():
            if element.get("class") == "arithmatex" and self.md is not None:
                math = mathml(html.unescape((element.text or "")[2:-2]), block=element.tag == "div")
                element.text = AtomicString(self.md.htmlStash.store(math))
                if element.tag == "div":
                    element.set("style", "margin: 1em 0; padding: 0.3em 0")


def mathml(latex: str, *, block: bool = False) -> str:
    r"""A formula as a ``<math>`` element; a command that is not known is an error.

    >>> mathml("x").split(">", 1)[1]
    '<mrow><mi>x</mi></mrow></math>'
    """
    math = convert(latex.strip(), display="block" if block else "inline")
    if "\\" in math or "$" in latex:
        raise ValueError(f"this is LaTeX that cannot be put into MathML: {latex}")
    return math


class MathML(Extension):
    """The extension as Markdown wants it."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Come when inline patterns have been found, and before anything is written out."""
        md.treeprocessors.register(Formulas(md), "mathml", 15)


def makeExtension(**options: object) -> MathML:
    """The name by which Markdown asks for it."""
    return MathML(**options)
