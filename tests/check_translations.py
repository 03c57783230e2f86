#!/usr/bin/env python3
"""Keeps the Chinese pages equal to the English ones, which are the original.

    check_translations.py <root of the repository>

A page is a sequence of blocks: headings, paragraphs, items of lists, tables, code. Both languages have the same blocks
in the same order. A line of code, a table's cell or a heading without Chinese in it is the same, character for
character; one with Chinese, and all prose, states the same facts: numbers, relations, names, words in backticks, links.
At the end faults are planted into the pages, in both languages, and each has to be noticed (GRADUS_TEST_LONG=1: thousands).
"""
import functools
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGES = ["README.md", "docs/compatibility.md", "docs/numerics.md", "docs/diff.md", "src/ops/*/README.md"]

CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
NUMBER = re.compile(r"""(?<![A-Za-z0-9_.]) (?:(?<![A-Za-z0-9_)\]])[-−±+])? \d+(?:\.\d+)* (?:e[-+]?\d+)?
                        | [⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+ | [<>≤≥=Σσ×→]""", re.VERBOSE)
WORD = re.compile(r"(?<![A-Za-z0-9_'])[A-Za-z_][A-Za-z0-9_]*")


class Block(NamedTuple):
    kind: str  # "# heading", "paragraph", "-" and "1." for items, "table", "code", "```c++"
    line: int  # its first, from 1
    lines: list

    def text(self):
        return " ".join(line.strip() for line in self.lines)


def chinese_name(page):
    return page[:-len(".md")] + ".zh.md"


def parse(text):
    blocks = []
    fence = open_block = False  # open_block: the next line of prose, table or indented code belongs to the last block
    for number, line in enumerate(text.splitlines(), 1):
        marker = re.match(r"(#+|-|\d+\.) +", line)
        if fence or line.startswith("```"):
            if not fence:
                blocks.append(Block(line.strip(), number, []))
            elif not line.startswith("```"):
                blocks[-1].lines.append(line)
            fence = fence != line.startswith("```")
            open_block = False
        elif not line.strip():
            open_block = False
        elif marker:
            blocks.append(Block(marker[1] + " heading" * line.startswith("#"), number, [line[marker.end():]]))
            open_block = not line.startswith("#")
        elif open_block and (blocks[-1].kind == "table") == line.startswith("|"):
            blocks[-1].lines.append(line)
        else:
            kind = "table" if line.startswith("|") else "code" if line.startswith("    ") else "paragraph"
            blocks.append(Block(kind, number, [line]))
            open_block = True
    return blocks


@functools.cache  # a planted fault changes one block of a page
def facts(text):
    """What a text says in any language, each as often as it says it."""
    targets = [target.replace(".zh.md", ".md") for target in LINK.findall(text)]
    links = ["link to " + re.sub(r"(^|/)README\.md$", "", target).rstrip("/") for target in targets]
    text = LINK.sub("]", text)
    spans = [f"`{span}`" for span in SPAN.findall(text)]
    text = SPAN.sub(" ` ", text)
    text = re.sub(r"(\d)( million|00万)", r"\g<1>000000", text)  # the one way in which both count differently
    words = [re.sub(r"^([A-Z]{2,})s$", r"\1", word) for word in WORD.findall(text)]
    names = [word for word in words if re.search(r".[A-Z]|[0-9_]", word) or len(word) == 1 and word not in "aAI"]
    return Counter([*NUMBER.findall(text), *names, *spans, *links])


def compare_text(english, chinese, must_have_chinese=False):
    """What is wrong with the Chinese of a piece of text, in words, or None."""
    if not CHINESE.search(chinese):
        if must_have_chinese:
            return "is not translated"
        return None if english == chinese else f"is {chinese!r}, in English {english!r}"
    wanted, got = facts(english), facts(chinese)
    if wanted == got:
        return None
    return " and ".join(f"{verb} {', '.join((some - others).elements())}"
                        for verb, some, others in (("lacks", wanted, got), ("adds", got, wanted)) if some - others)


def cells(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def compare_code(english, chinese):
    """A line of code: columns without Chinese, such as what stands before a comment, are the same."""
    if not CHINESE.search(chinese):
        return None if english == chinese else f"is {chinese.strip()!r}, in English {english.strip()!r}"
    columns = [re.split(r" {2,}", line) for line in (english, chinese)]
    if len(columns[0]) != len(columns[1]):
        return f"has {len(columns[1])} columns, in English {len(columns[0])}"
    return next(filter(None, map(compare_text, *columns)), None)


def compare_rows(english, chinese, known):
    columns = cells(english), cells(chinese)
    if len(columns[0]) != len(columns[1]):
        return f"has {len(columns[1])} cells, in English {len(columns[0])}"
    for wanted, got in zip(*columns):
        # One word for one thing: a state of a function is the same word in every row.
        if known.setdefault(wanted, got) != got:
            return f"has {got!r} for {wanted!r}, elsewhere {known[wanted]!r}"
    return next(filter(None, map(compare_text, *columns)), None)


def compare(page, english, chinese):
    """Everything wrong with a Chinese page, a line each. Pages are given as blocks."""
    faults = []

    def fault(block, row, message):
        faults.append(f"{chinese_name(page)}:{block.line + row}: {message} ({page}:{english_block.line + row})")

    name = page.split("/")[-1]
    for blocks, where, line in ((english, page, f"[中文]({chinese_name(name)})"),
                                (chinese, chinese_name(page), f"[English]({name})")):
        if len(blocks) < 2 or blocks[1].lines != [line]:
            return [f"{where}:3: expected {line} under the title"]

    known = {}
    for english_block, block in zip(english[:1] + english[2:], chinese[:1] + chinese[2:]):
        if english_block.kind != block.kind:
            fault(block, 0, f"{block.kind}, in English {english_block.kind}")
            return faults  # nothing behind it would fit
        if block.kind in ("table", "code") or block.kind.startswith("```"):
            if len(block.lines) != len(english_block.lines):
                fault(block, 0, f"{block.kind} of {len(block.lines)} lines, in English {len(english_block.lines)}")
                continue
            for row, lines in enumerate(zip(english_block.lines, block.lines)):
                wrong = compare_rows(*lines, known) if block.kind == "table" else compare_code(*lines)
                if wrong:
                    fault(block, row, f"{block.kind} {wrong}")
        else:
            wrong = compare_text(english_block.text(), block.text(), must_have_chinese="heading" not in block.kind)
            if wrong:
                fault(block, 0, f"{block.kind} {wrong}")
    if len(english) != len(chinese):
        faults.append(f"{chinese_name(page)}: {len(chinese)} blocks, in English {len(english)}")
    return faults


def check_links(root, page):
    """Links lead somewhere, and those of a Chinese page to Chinese pages where there are any."""
    for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
        for target in LINK.findall(line):
            file = (root / page).parent / target.split("#")[0]
            if ":" in target:
                continue
            if not file.exists():
                yield f"{page}:{number}: link to {target}, which is not there"
            if page.endswith(".zh.md") and number != 3:
                translated = file / "README.zh.md" if file.is_dir() else file.with_suffix(".zh.md")
                if not file.name.endswith(".zh.md") and translated.exists():
                    yield f"{page}:{number}: link to {target}, which there is in Chinese"


def mutants(text, limit):
    """A page with one fault in it, some of every kind, spread over the page."""
    start = text.index("\n", text.index("](")) if "](" in text else 0  # behind the language line

    def some(pattern, replacement):
        found = [match for match in re.finditer(pattern, text, re.MULTILINE) if match.start() > start]
        for match in found[::-(-len(found) // limit) or 1]:
            yield f"{match[0]!r} at {match.start()}", text[:match.start()] + replacement(match) + text[match.end():]

    yield from some(r"\d", lambda match: str((int(match[0]) + 1) % 10))
    yield from some(r"^\|.*\n", lambda match: "")  # a row
    yield from some(r"^ {4}.*\S.*\n", lambda match: "")  # a line of code, a signature
    yield from some(r"^#.*\n", lambda match: "")
    yield from some(r"^#", lambda match: "##")
    yield from some(r"^(?:- |\d+\. ).*\n", lambda match: "")
    yield from some(r"(?<=\n\n)[^\n|#`> -](?:.+\n)+(?=\n)", lambda match: "")  # a paragraph
    yield from some(r"`[^`\n]+`", lambda match: match[0][:-1] + "x`")
    yield from some(r"(?<=\]\()[^)]+", lambda match: match[0] + "x")
    yield from some(r"[<>≤≥]", lambda match: "=")
    yield from some(r"(?<= )−(?=\d)", lambda match: "")
    yield from some(r"(?<=\| )(?:same|一致)(?= \|)", lambda match: "differs" if match[0] == "same" else "有差异")


def main():
    root = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__))
    pages = sorted(str(file.relative_to(root)) for pattern in PAGES for file in root.glob(pattern))
    faults = [f"{page}: no such page" for page in PAGES if not any(root.glob(page))]
    translations = {str(file.relative_to(root)) for folder in ("", "docs/", "src/ops/*/")
                    for file in root.glob(f"{folder}*.zh.md")}
    faults += [f"{page}: no page of PAGES in Chinese" for page in translations - set(map(chinese_name, pages))]
    planted = 0
    limit = 10**9 if os.environ.get("GRADUS_TEST_LONG") else 5  # faults of a kind in a page
    for page in pages:
        if not (root / chinese_name(page)).exists():
            faults.append(f"{page}: no {chinese_name(page)}")
            continue
        texts = [(root / name).read_text(encoding="utf-8") for name in (page, chinese_name(page))]
        english, chinese = map(parse, texts)
        wrong = compare(page, english, chinese)
        faults += [*wrong, *check_links(root, page), *check_links(root, chinese_name(page))]
        if wrong:
            continue
        for language, text in zip(("English", "Chinese"), texts):
            for what, mutant in mutants(text, limit):
                planted += 1
                blocks = parse(mutant)
                if not compare(page, *((blocks, chinese) if language == "English" else (english, blocks))):
                    faults.append(f"{page}, {language}: a fault that is not noticed, {what}")
    print(*faults, sep="\n", file=sys.stderr, end="\n" if faults else "")
    print(f"{len(pages)} pages in both languages, {planted} planted faults, {len(faults)} complaints")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
