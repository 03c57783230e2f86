#!/usr/bin/env python3
"""Do the tests notice mistakes? Makes small ones in src/base, src/runtime and src/aclnn, one at a time, and runs them.

Each mutant is compiled by itself, linked with the objects of an ordinary build into a libgradus.so of its own, and
given to the test programs until one fails. A mutant that does not compile, or whose object code is that of the
original, is no mistake and not counted. Survivors that nobody could notice are written down in mutants_accepted.txt,
with the reason.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing

import mutate

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ('base', 'runtime', 'aclnn')
# Inline code of headers also lands in operators: those whose tests run are compiled anew as well, but for the kernels,
# which take a minute and include none of it that a test of the layers would ask about.
OPERATORS = ('ops/catalogue.cpp', 'ops/swi_glu/', 'ops/exp_segsum/')
TARGET_SHARE = 0.95


class Program(typing.NamedTuple):
    place: str  # in the build
    name: str
    filter: str = '*'


# In the order in which they are asked: what takes long comes last.
PROGRAMS = [Program('tests/runtime', f'runtime_{name}_test')
            for name in ('init', 'context', 'event', 'stream', 'memory', 'fork')]
PROGRAMS += [Program('tests/aclnn', f'aclnn_{name}_test') for name in ('objects', 'by_name', 'views')]
PROGRAMS += [Program('testing', 'swi_glu_test', '-*.Streaming'),
             Program('testing', 'exp_segsum_test', '-*Sizes:*ModelShapes:*.Streaming:*HugeMatrix:*SpecialValues'),
             Program('testing', 'swi_glu_test', '*.Streaming')]


def digest(*parts):
    joined = hashlib.sha1()
    for part in parts:
        joined.update(part if isinstance(part, bytes) else str(part).encode())
        joined.update(b'\0')
    return joined.hexdigest()


class Build:
    """An ordinary build, whose commands and objects the mutants borrow."""

    def __init__(self, directory, scratch):
        self.directory, self.scratch = directory, scratch
        self.commands = {}  # source → compiler's arguments without source and output
        self.objects = {}   # source → its object, as the link line spells it
        for entry in json.loads((directory / 'compile_commands.json').read_text()):
            words = shlex.split(entry['command'])
            output = words[words.index('-o') + 1]
            if 'gradus_objects.dir' in output:
                source = str(pathlib.Path(entry['file']).relative_to(ROOT))
                self.objects[source] = output
                self.commands[source] = self.without_ballast(words, output, entry['file'])
        line = next(l for l in reversed(self.ninja('commands', 'src/libgradus.so').splitlines()) if ' -shared ' in l)
        self.link_words = [w for w in shlex.split(line) if w not in (':', '&&', '-g')]
        self.includers = self.read_includers()
        self.library = digest((directory / 'src/libgradus.so').read_bytes())
        headers = sorted((ROOT / 'src').rglob('*.h'))
        self.headers = digest(*(h.read_bytes() for h in headers))
        self.locks = {source: threading.Lock() for source in self.commands}

    @staticmethod
    def without_ballast(words, output, source):
        """No debug data and no warnings, but for the one that a function may end without a value."""
        words = [w for w in words if w not in ('-g', '-c', '-o', output, source) and not w.startswith('-W')]
        return words[pathlib.Path(words[0]).name == 'ccache':] + ['-w', '-Werror=return-type']

    def ninja(self, *tool):
        return subprocess.run(['ninja', '-C', self.directory, '-t', *tool], check=True, text=True,
                              capture_output=True).stdout

    def read_includers(self):
        """Header → sources among those that are compiled anew."""
        wanted = tuple(f'src/{layer}/' for layer in LAYERS) + tuple(f'src/{place}' for place in OPERATORS)
        source_of = {output: source for source, output in self.objects.items()}
        includers, source = {}, None
        for line in self.ninja('deps').splitlines():
            if line and not line.startswith(' '):
                source = source_of.get(line.split(':')[0])
            elif source and source.startswith(wanted) and '/kernel' not in source:
                path = os.path.normpath(self.directory / line.strip())
                if path.startswith(f'{ROOT}/src/'):
                    includers.setdefault(os.path.relpath(path, ROOT), []).append(source)
        return includers

    def compile(self, source, text_of, output, include=()):
        """None, or what the compiler says. `text_of` is the file that is compiled as `source`."""
        words = self.commands[source]
        words = [words[0], *(f'-I{i}' for i in include), *words[1:], '-o', output, '-c', text_of]
        done = subprocess.run(words, cwd=self.directory, capture_output=True, text=True)
        return done.stderr if done.returncode != 0 else None

    def original(self, source):
        """The object of the unchanged source, compiled like those of the mutants."""
        key = digest(' '.join(self.commands[source]), self.headers, (ROOT / source).read_bytes())
        kept = self.scratch / 'originals' / f'{key}.o'
        with self.locks[source]:
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                fresh = kept.with_suffix('.new')
                problem = self.compile(source, ROOT / source, fresh)
                if problem:
                    sys.exit(f'{source} does not compile:\n{problem}')
                fresh.rename(kept)
        return kept.read_bytes()

    def link(self, replaced, output):
        """Whether it links with these objects for those of the build. They come first: of an inline function that
        several objects hold, the first is taken."""
        gone = {self.objects[source] for source in replaced}
        words = [w for w in self.link_words if w not in gone]
        at = words.index('-o')
        words[at + 1] = str(output)
        words[at + 2:at + 2] = [str(o) for o in replaced.values()]
        return subprocess.run(words, cwd=self.directory, capture_output=True).returncode == 0


class Tests:
    """The test programs, and how long each may take."""

    def __init__(self, build):
        self.build = build
        helper = (build.directory / 'tests/runtime/runtime_helper').read_bytes()
        self.digests = {p.name: digest(self.path(p).read_bytes(), helper) for p in PROGRAMS}
        self.limits = {}

    def path(self, program):
        return self.build.directory / program.place / program.name

    def all(self):
        return digest(*sorted(self.digests.values()))

    def measure(self):
        """Runs all on the library as it is: they have to pass, and their times tell what a hang is."""
        where = self.build.scratch / 'unchanged'
        where.mkdir(parents=True, exist_ok=True)
        kept = where / digest(self.build.library, self.all(), PROGRAMS)
        if kept.exists():
            self.limits = dict(zip(PROGRAMS, json.loads(kept.read_text())))
            return
        print('the unchanged library:', end='', flush=True)
        for program in PROGRAMS:
            begin = time.monotonic()
            failure = self.run(program, self.build.directory / 'src', where, 600)
            if failure:
                sys.exit(f'\n{program.name} fails without a mutant: {failure}')
            took = time.monotonic() - begin
            self.limits[program] = 20 + 5 * took
            print(f' {program.name} {took:.1f} s', end='', flush=True)
        print()
        kept.write_text(json.dumps(list(self.limits.values())))

    def first_failure(self, mutant, library, where):
        """(program, test) that fails, or None. Programs of the mutant's own layer are asked first."""
        own = mutant.path.split('/')[1]
        for program in sorted(PROGRAMS, key=lambda p: own not in p.name):
            failure = self.run(program, library, where, self.limits[program])
            if failure:
                return program.name, failure
        return None

    def run(self, program, library, where, limit):
        """None if the program passes, otherwise the test that did not."""
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(library), 'TEST_TMPDIR': str(where), 'TMPDIR': str(where)}
        with open(where / 'output', 'w+', errors='replace') as output:
            child = subprocess.Popen([self.path(program), '--gtest_fail_fast', f'--gtest_filter={program.filter}'],
                                     stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=where,
                                     start_new_session=True, preexec_fn=tame)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # its children too: helpers that hang, forks
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            if code == 0:
                return None
            output.seek(0)
            text = output.read()
        failed = re.findall(r'^\[  FAILED  \] ([\w./]+)', text, re.M)
        begun = re.findall(r'^\[ RUN      \] ([\w./]+)', text, re.M)  # a crash or a hang comes to no report
        how = ' (hangs)' if code is None else f' (signal {-code})' if code < 0 else ''
        return (failed[:1] or begun[-1:] or ['no test'])[0] + how


def tame():
    """Between fork and exec of a test: a mutant may write without end, and take all the memory there is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    with open('/proc/self/oom_score_adj', 'w') as score:  # the first that the kernel ends
        score.write('1000')


def verdict(mutant, source, build, tests):
    """('killed', by), ('survived', ''), ('stillborn', '') or ('equivalent', '')."""
    where = build.scratch / mutant.id
    shutil.rmtree(where, ignore_errors=True)
    (where / 'lib').mkdir(parents=True)
    try:
        changed = where / mutant.path
        changed.parent.mkdir(parents=True)
        changed.write_text(mutant.apply(source))
        header = mutant.path.endswith('.h')
        replaced, same = {}, True
        for unit in build.includers.get(mutant.path, []) if header else [mutant.path]:
            output = where / (unit.replace('/', '_') + '.o')
            if build.compile(unit, ROOT / unit if header else changed, output, [where / 'src'] if header else []):
                return 'stillborn', ''
            if output.read_bytes() != build.original(unit):
                same = False
                replaced[unit] = output
        if same:
            return 'equivalent', ''
        if not build.link(replaced, where / 'lib/libgradus.so.0'):
            return 'stillborn', ''
        failure = tests.first_failure(mutant, where / 'lib', where)
        return ('killed', ' '.join(failure)) if failure else ('survived', '')
    finally:
        shutil.rmtree(where, ignore_errors=True)


class Cache:
    """Verdicts of earlier runs. A killed mutant stays killed as long as the program that killed it is the same; one
    that survived is asked again whenever any program has changed."""

    def __init__(self, path, build, tests, fresh):
        self.path, self.build, self.tests = path, build, tests
        self.entries = {} if fresh or not path.exists() else json.loads(path.read_text())
        self.lock = threading.Lock()

    def key(self, mutant, source):
        return digest(mutant.path, mutant.apply(source), self.build.library)

    def judges(self, outcome, by):
        return self.tests.digests.get(by.split(' ')[0]) if outcome == 'killed' else self.tests.all()

    def get(self, mutant, source):
        outcome, by, judges = self.entries.get(self.key(mutant, source), ('', '', None))
        return (outcome, by) if outcome and judges == self.judges(outcome, by) else None

    def put(self, mutant, source, outcome, by):
        with self.lock:
            self.entries[self.key(mutant, source)] = (outcome, by, self.judges(outcome, by))
            fresh = self.path.with_suffix('.new')
            fresh.write_text(json.dumps(self.entries, indent=0))
            fresh.rename(self.path)


def read_accepted():
    """{(file, operator, line)}: blocks of `file: operator`, the line as it stands, and the reason."""
    text = (ROOT / 'testing/mutants_accepted.txt').read_text()
    accepted = set()
    for block in re.sub(r'^#.*\n', '', text, flags=re.M).strip().split('\n\n'):
        if block:
            place, line, reason = (part.strip() for part in block.split('\n', 2))
            path, operator = place.split(': ')
            accepted.add((path, operator, line))
    return accepted


def show(mutant, source, result):
    """One line, with enough of the code around a small change to find it."""
    room = max(0, 30 - len(mutant.before)) // 2
    left = source[max(source.rfind('\n', 0, mutant.start) + 1, mutant.start - room):mutant.start]
    right = source[mutant.end:mutant.end + room].split('\n')[0]

    def short(text):
        text = ' '.join((left + text + right).split())
        return text if len(text) <= 70 else text[:69] + '…'

    change = f'{short(mutant.before)} → {short(mutant.after)}'
    print(f'{mutant.id} {mutant.path}:{mutant.line} {mutant.operator}: {change}  {result}', flush=True)


def judge(chosen, sources, build, tests, cache, jobs):
    """{mutant: outcome}, each printed as it comes."""
    accepted = read_accepted()

    def one(mutant):
        source = sources[mutant.path]
        result = cache.get(mutant, source)
        if result is None:
            result = verdict(mutant, source, build, tests)
            cache.put(mutant, source, *result)
        outcome, by = result
        if outcome == 'survived' and (mutant.path, mutant.operator, mutant.text) in accepted:
            outcome = 'accepted'
        show(mutant, source, f'killed by {by}' if by else 'SURVIVED' if outcome == 'survived' else outcome)
        return mutant, outcome

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, chosen))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/dev', help='an ordinary build (build/dev)')
    parser.add_argument('--count', type=int, default=200, help='how many mutants (200)')
    parser.add_argument('--seed', default='1', help='which ones')
    parser.add_argument('--files', default='', help='only files whose path matches this')
    parser.add_argument('--list', action='store_true', help='print the mutants and do nothing')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='mutants at a time (CPUs)')
    parser.add_argument('--only', help='the mutant with this id, chosen or not')
    parser.add_argument('--fresh', action='store_true', help='forget the verdicts of earlier runs')
    return parser.parse_args()


def main():
    options = arguments()
    files = (f for layer in LAYERS for f in sorted((ROOT / 'src' / layer).glob('*')) if f.suffix in ('.h', '.cpp'))
    sources = {str(f.relative_to(ROOT)): f.read_text() for f in files}
    sources = {path: text for path, text in sources.items() if re.search(options.files, path)}
    if options.only:
        every = (m for path, text in sources.items() for pile in mutate.mutants_of(path, text).values() for m in pile)
        chosen = [m for m in every if m.id == options.only]
    else:
        chosen = mutate.sample(sources, options.count, options.seed)
    if options.list:
        for mutant in chosen:
            show(mutant, sources[mutant.path], '')
        return 0
    scratch = ROOT / 'build/mutants'
    scratch.mkdir(parents=True, exist_ok=True)
    build = Build(options.build.resolve(), scratch)
    tests = Tests(build)
    tests.measure()
    cache = Cache(scratch / 'results.json', build, tests, options.fresh or options.only is not None)
    outcomes = list(judge(chosen, sources, build, tests, cache, options.jobs).values())
    killed, survived = outcomes.count('killed'), outcomes.count('survived')
    share = killed / max(1, killed + survived)
    print(f'{killed} killed, {survived} survived: {100 * share:.1f} % (expected {100 * TARGET_SHARE:.0f}); left out: '
          + ', '.join(f'{outcomes.count(kind)} {kind}' for kind in ('accepted', 'equivalent', 'stillborn')))
    return 0 if share >= TARGET_SHARE or not outcomes else 1


if __name__ == '__main__':
    sys.exit(main())
