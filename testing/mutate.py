"""Small mistakes made in C++ source text on purpose; mutants.py asks whether the tests notice them.

Source here has one style (clang-format), so patterns on masked text do: binary operators stand between blanks,
templates and pointers do not, statements end their line. What does not compile after a change was no mistake, and is
not counted.
"""
import dataclasses
import hashlib
import random
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str      # from the root of the sources
    line: int      # of the change, from 1
    operator: str
    start: int     # [start, end) of the file's text becomes `after`
    end: int
    before: str
    after: str
    text: str      # the line as it was: what an accepted mutant is known by
    nth: int       # of its like in the file: two equal lines are two mutants

    @property
    def id(self):
        parts = (self.path, self.operator, self.text, self.before, self.after, str(self.nth))
        return hashlib.sha1('\0'.join(parts).encode()).hexdigest()[:8]

    def apply(self, source):
        return source[:self.start] + self.after + source[self.end:]


def mask(source):
    """The text with all that is no code blanked, position by position: comments, strings, directives, static_assert."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group())

    def blank_inside(match):  # quotes stay, so that an argument is still seen to be there
        return match.group()[0] + ' ' * (len(match.group()) - 2) + match.group()[-1]

    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
                  lambda m: blank(m) if m.group()[0] == '/' else blank_inside(m), source, flags=re.S)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', blank, text, flags=re.M)
    return re.sub(r'\b(?:static_assert|using|namespace|friend|template)\b[^;{]*[;{]|\[\[\w+\]\]', blank, text)


def matching(text, opening):
    """Position of the bracket that closes the one at `opening`; -1 if none does."""
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] in '([{') - (text[i] in ')]}')
        if depth == 0:
            return i
    return -1


def start_of_expression(text, end):
    """Where the condition before a `?` at `end` begins."""
    depth, i = 0, end - 1
    while i >= 0:
        c = text[i]
        depth += (c in ')]}') - (c in '([{')
        colon = c in '?:' and text[i - 1] != ':' and text[i + 1] != ':'
        assigns = c == '=' and text[i - 1] == ' ' and text[i + 1] == ' '
        if depth < 0 or (depth == 0 and (c in ',;' or colon or assigns)):
            break
        i -= 1
    word = re.match(r'\s*(?:return\b\s*)?', text[i + 1:end])
    return i + 1 + word.end()


# Each operator yields (start, end, replacement) over the masked text and the source. What is dropped leaves a
# semicolon: it may have been all that a loop did.

def negated_conditions(text, source):
    for found in re.finditer(r'\b(?:if|while)(?: constexpr)? \(', text):
        close = matching(text, found.end() - 1)
        start = max(found.end(), text.rfind(';', found.end(), close) + 1)  # after `if (init; `
        yield start, close, f'!({source[start:close].strip()})'
    for found in re.finditer(r' \? ', text):
        start = start_of_expression(text, found.start())
        yield start, found.start(), f'!({source[start:found.start()]})'


def swapped(table):
    def operator(text, source):
        for found in re.finditer(r'(?<= )(?:%s)(?= )' % '|'.join(map(re.escape, table)), text):
            yield found.start(), found.end(), table[found.group()]
    return operator


def dropped_nots(text, source):
    for found in re.finditer(r'!(?=[\w(*])', text):
        yield found.start(), found.end(), ''


def changed_constants(text, source):
    for found in re.finditer(r'(?<![\w.\'])\d+(?![\w.\'])', text):
        if 'virtual' in source[source.rfind('\n', 0, found.start()) + 1:found.start()]:
            continue  # = 0
        value = int(found.group())
        for other in {0: [1], 1: [0, 2]}.get(value, [value - 1, value + 1]):
            yield found.start(), found.end(), str(other)
    for found in re.finditer(r'\b(?:true|false)\b', text):
        yield found.start(), found.end(), 'false' if found.group() == 'true' else 'true'


def other_error_codes(text, source):
    names = ['ACL_ERROR_INVALID_PARAM', 'ACL_ERROR_RT_PARAM_INVALID', 'ACL_ERROR_RT_INTERNAL_ERROR']
    inner = ['ACLNN_ERR_PARAM_NULLPTR', 'ACLNN_ERR_PARAM_INVALID', 'ACLNN_ERR_INNER']
    for found in re.finditer(r'\b(ACL_ERROR|ACLNN_ERR)_\w+', text):
        known = names if found.group(1) == 'ACL_ERROR' else inner
        at = known.index(found.group()) if found.group() in known else -1
        yield found.start(), found.end(), known[(at + 1) % len(known)]


def dropped_returns(text, source):
    for found in re.finditer(r'^ +(?:if \(.*\) return\b[^;\n]*;|GRADUS_TRY\(.*\);)', text, re.M):
        yield found.start(), found.end(), ';'


def negated_returns(text, source):
    is_bool = r'[<>=!]=|&&|\|\|| [<>] |!|\.(?:empty|contains|ok)\('
    for found in re.finditer(r'\breturn ([^;{}\n]*(?:%s)[^;{}\n]*);' % is_bool, text):
        yield found.start(1), found.end(1), f'!({source[found.start(1):found.end(1)]})'


# A line that is one statement without a declaration: a call, an assignment, a step.
STATEMENT = re.compile(r'^ +(?!return\b|if\b|for\b|while\b|else\b|case\b|throw\b|using\b|GRADUS_TRY)'
                       r'(?:[\w:]+(?:->|\.|::)?|[(*+-]|\[[^\]\n]*\])[^\s;]*'
                       r'(?:\(.*\)| [-+*/|&]?= [^;\n]*|\+\+|--|);(?= *$)', re.M)
LOCK = re.compile(r'^ +(?:const Lock \w+ = hold\(\);|lock\.(?:un)?lock\(\);)', re.M)


def is_whole(line):
    return all(line.count(a) == line.count(b) for a, b in ('()', '{}', '[]'))


def dropped_locks(text, source):
    for found in LOCK.finditer(text):
        yield found.start(), found.end(), ';'


def dropped_statements(text, source):
    for found in STATEMENT.finditer(text):
        if is_whole(found.group()) and not LOCK.match(found.group()):
            yield found.start(), found.end(), ';'
    for found in re.finditer(r'^ +if \(.*\) (?!return\b)[\w*(+][^;{\n]*;(?= *$)', text, re.M):
        if is_whole(found.group()):
            yield found.start(), found.end(), ';'


def are_independent(one, two):
    """Two assignments of which neither mentions what the other sets: their order is nobody's business."""
    targets = [re.match(r' *(\S+) [-+*/|&]?= ', s) for s in (one, two)]
    return all(targets) and targets[0].group(1) not in two and targets[1].group(1) not in one


def swapped_statements(text, source):
    statements = [m for m in STATEMENT.finditer(text) if is_whole(m.group())]
    for one, two in zip(statements, statements[1:]):
        adjacent = text[one.end():two.start()].strip() == '' and source.count('\n', one.end(), two.start()) == 1
        indent = [len(m.group()) - len(m.group().lstrip()) for m in (one, two)]
        if adjacent and indent[0] == indent[1] and not are_independent(one.group(), two.group()):
            between = source[one.end():two.start()]
            yield one.start(), two.end(), source[two.start():two.end()] + between + source[one.start():one.end()]


def stepped_backwards(text, source):
    for found in re.finditer(r'\+\+|--', text):
        yield found.start(), found.end(), '--' if found.group() == '++' else '++'


OPERATORS = {
    'negate condition': negated_conditions,
    'comparison': swapped({'<=': '<', '>=': '>', '<': '<=', '>': '>=', '==': '!=', '!=': '=='}),
    'logic': swapped({'&&': '||', '||': '&&'}),
    'drop not': dropped_nots,
    'constant': changed_constants,
    'error code': other_error_codes,
    'drop return': dropped_returns,
    'negate return': negated_returns,
    'drop statement': dropped_statements,
    'drop lock': dropped_locks,
    'swap statements': swapped_statements,
    'arithmetic': swapped({'+': '-', '-': '+', '*': '/', '/': '*', '+=': '-=', '-=': '+=', '<<': '>>', '>>': '<<'}),
    'step': stepped_backwards,
}


def mutants_of(path, source):
    """All mutants of a file, by operator."""
    text = mask(source)
    found = {}
    for name, operator in OPERATORS.items():
        seen = {}
        for start, end, after in operator(text, source):
            if start < 0 or end <= start:
                continue
            before = source[start:end]
            begin = source.rfind('\n', 0, start + len(before) - len(before.lstrip())) + 1
            line = source[begin:source.find('\n', start + 1)].strip()
            nth = seen[line, before, after] = seen.get((line, before, after), -1) + 1
            found.setdefault(name, []).append(
                Mutant(path, source.count('\n', 0, begin) + 1, name, start, end, before, after, line, nth))
    return found


def code_lines(source):
    return sum(1 for line in mask(source).splitlines() if re.search(r'\w', line))


def sample(sources, count, seed):
    """`count` mutants: to each file in proportion to its lines of code, and there to each operator in turn."""
    lines = {path: code_lines(source) for path, source in sources.items()}
    chosen, owed = [], 0.0
    for path in sorted(sources):
        owed += count * lines[path] / max(1, sum(lines.values()))
        rng = random.Random(f'{seed} {path}')
        piles = [rng.sample(pile, len(pile)) for _, pile in sorted(mutants_of(path, sources[path]).items())]
        rng.shuffle(piles)
        while owed >= 0.5 and any(piles):
            for pile in piles:
                if pile and owed >= 0.5:
                    chosen.append(pile.pop())
                    owed -= 1
    return chosen
