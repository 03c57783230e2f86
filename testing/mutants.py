#!/usr/bin/env python3
"""Do the tests notice mistakes? Makes small ones in src/base, src/runtime and src/aclnn, or in src/hccl, one at a time.

Each mutant is compiled by itself, linked with the objects of an ordinary build into a libgradus.so of its own, and
given to the test programs until one fails. A lock that is not taken is looked for by ThreadSanitizer: such a mutant is
made of its build, and given to the programs with several threads. A mutant that does not compile, or whose object code
is that of the original, is no mistake and not counted. Survivors that nobody could notice are written down in
mutants_accepted.txt, with the reason, and not asked about again.
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
# Inline code of headers also lands in operators: those whose tests run are compiled anew as well, but for the kernels,
# which take a minute and include none of it that a test of the layers would ask about.
OPERATORS = ('ops/catalogue.cpp', 'ops/swi_glu/', 'ops/exp_segsum/')
TARGET_SHARE = 0.95


class Program(typing.NamedTuple):
    name: str
    command: tuple
    environment: tuple
    directory: str  # where it runs; empty: in a folder of the mutant's own
    filter: str

    @property
    def path(self):
        return pathlib.Path(self.command[0])

    def files(self):
        """What it is made of: itself and the helpers beside it, or the scripts that Python runs and what they start."""
        if self.directory:
            started = (pathlib.Path(value) for value in dict(self.environment).values())
            return sorted(pathlib.Path(self.directory).glob('*.py')) + sorted(f for f in started if f.is_file())
        beside = (f for f in self.path.parent.iterdir() if f.is_file() and os.access(f, os.X_OK))
        return [self.path] + sorted(f for f in beside if not f.name.endswith('_test'))


class Judges(typing.NamedTuple):
    """Which tests are asked, by their names in ctest, and which parts of the operators'."""
    tests: str
    parts: tuple


class Part(typing.NamedTuple):
    layers: tuple
    plain: Judges
    threads: Judges


PARTS = {
    'core': Part(('base', 'runtime', 'aclnn'),
                 Judges('(runtime|aclnn|base|faults)(_|$)|trace|sanitize_(planted|random|command)$|hccl_waiting|'
                        'fuzz/(runtime|views)',
                        (('ops/swi_glu', '-*.Streaming'),
                         ('ops/exp_segsum', '-*Sizes:*ModelShapes:*.Streaming:*HugeMatrix:*SpecialValues'),
                         ('ops/swi_glu', '*.Streaming'))),
                 Judges('runtime_|aclnn_(threads|run)', (('ops/swi_glu', '*.Executors'),))),
    'hccl': Part(('hccl',), Judges('hccl_', ()), Judges('hccl_(operators|communicators|failures)$', ())),
}


def digest(*parts):
    joined = hashlib.sha1()
    for part in parts:
        joined.update(part if isinstance(part, bytes) else str(part).encode())
        joined.update(b'\0')
    return joined.hexdigest()


class Build:
    """An ordinary build, whose commands and objects the mutants borrow."""

    def __init__(self, directory, scratch, layers):
        self.directory, self.scratch, self.layers = directory, scratch, layers
        self.commands = {}  # source → compiler's arguments without source and output
        self.objects = {}   # source → its object, as the link line spells it
        self.inside = {}    # test program that is linked with sources of the library → the same for it
        for entry in json.loads((directory / 'compile_commands.json').read_text()):
            words = shlex.split(entry['command'])
            output = words[words.index('-o') + 1]
            source = os.path.relpath(entry['file'], ROOT)
            if re.search(r'/gradus_(layers|observers|operators)\.dir/', output):
                self.objects[source] = output
                self.commands[source] = self.without_ballast(words, output, entry['file'])
            elif source.startswith('src/') and output.startswith('tests/'):
                program = output.replace('CMakeFiles/', '').split('.dir/')[0]
                self.inside.setdefault(program, {})[source] = output
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
        wanted = tuple(f'src/{layer}/' for layer in self.layers) + tuple(f'src/{place}' for place in OPERATORS)
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

    def link(self, product, objects, replaced, output):
        """Whether it links with these objects for those of the build. They come first: of an inline function that
        several objects hold, the first is taken."""
        line = next(l for l in reversed(self.ninja('commands', product).splitlines()) if f' -o {product}' in l)
        gone = {objects[source] for source in replaced}
        words = shlex.split(line)
        words = [w for w in words[words.index('&&') + 1:words.index('&&', 2)] if w not in gone and w != '-g']
        at = words.index('-o')
        words[at + 1] = str(output)
        words[at + 2:at + 2] = [str(o) for o in replaced.values()]
        return subprocess.run(words, cwd=self.directory, capture_output=True).returncode == 0

    def folder(self, where):
        """For a library of its own, libgradus.so.0, with those that it loads beside it."""
        shutil.rmtree(where / 'lib', ignore_errors=True)
        (where / 'lib').mkdir(parents=True)
        (where / 'lib/libgradus.so').symlink_to('libgradus.so.0')
        for loaded in (self.directory / 'src').glob('libgradus_*.so'):
            (where / 'lib' / loaded.name).symlink_to(loaded)
        return where / 'lib'

    def link_all(self, replaced, where):
        """The library, and the test programs that have one of the sources inside."""
        if not self.link('src/libgradus.so.0', self.objects, replaced, self.folder(where) / 'libgradus.so.0'):
            return False
        for program, objects in self.inside.items():
            own = {source: o for source, o in replaced.items() if source in objects}
            if own and not self.link(program, objects, own, where / pathlib.Path(program).name):
                return False
        return True


class Tests:
    """The test programs, and how long each may take."""

    def __init__(self, build, judges):
        self.build = build
        listed = subprocess.run(['ctest', '--test-dir', build.directory, '--show-only=json-v1'], check=True,
                                capture_output=True, text=True).stdout
        known = {test['name']: test for test in json.loads(listed)['tests']}
        chosen = [(name, '*') for name in known if re.match(judges.tests, name)] + list(judges.parts)
        self.programs = [self.program(known[name], part) for name, part in chosen]
        self.digests = {p.name: digest(p, *(f.read_bytes() for f in p.files())) for p in self.programs}
        self.limits = {}

    @staticmethod
    def program(test, part):
        if not os.access(test.get('command', ['no'])[0], os.X_OK):
            sys.exit(f'{test["name"]} is not built')
        properties = {p['name']: p['value'] for p in test.get('properties', [])}
        python = pathlib.Path(test['command'][0]).name.startswith('python')
        return Program(test['name'], tuple(test['command'][:1] if part != '*' else test['command']),
                       tuple(tuple(pair.split('=', 1)) for pair in properties.get('ENVIRONMENT', [])),
                       properties['WORKING_DIRECTORY'] if python else '', part)

    def all(self):
        return digest(*sorted(self.digests.values()))

    def measure(self):
        """Runs all on the library as it is: they have to pass, and their times tell what a hang is."""
        where = self.build.scratch / 'unchanged'
        library = self.build.folder(where)
        (library / 'libgradus.so.0').symlink_to(self.build.directory / 'src/libgradus.so.0')
        kept = where / digest(self.build.library, self.all())
        if kept.exists():
            self.limits = dict(zip(self.programs, json.loads(kept.read_text())))
            return
        print('the unchanged library:', end='', flush=True)
        for program in self.programs:
            begin = time.monotonic()
            failure = self.run(program, library, where, 600)
            if failure:
                sys.exit(f'\n{program.name} fails without a mutant: {failure}')
            took = time.monotonic() - begin
            self.limits[program] = 20 + 5 * took
            print(f' {program.name} {took:.1f} s', end='', flush=True)
        print()
        kept.write_text(json.dumps(list(self.limits.values())))

    def first_failure(self, mutant, library, where):
        """(program, test) that fails, or None. Programs of the mutant's own layer are asked first, and quick ones."""
        own = mutant.path.split('/')[1]
        for program in sorted(self.programs, key=lambda p: (own not in p.name, self.limits[p])):
            failure = self.run(program, library, where, self.limits[program])
            if failure:
                return program.name, failure
        return None

    def run(self, program, library, where, limit):
        """None if the program passes, otherwise the test that did not."""
        environment = {**os.environ, **dict(program.environment),
                       'LD_LIBRARY_PATH': str(library), 'GRADUS_LIBRARY': str(library / 'libgradus.so.0'),
                       'TEST_TMPDIR': str(where), 'TMPDIR': str(where),
                       'GTEST_FAIL_FAST': '1', 'GTEST_FILTER': program.filter, 'TSAN_OPTIONS': 'halt_on_error=1'}
        linked_anew = where / program.path.name
        words = [linked_anew if linked_anew.exists() else program.path, *program.command[1:]]
        with open(where / 'output', 'w+', errors='replace') as output:
            child = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=environment,
                                     cwd=program.directory or where, start_new_session=True, preexec_fn=tame)
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
        failed = re.findall(r'^(?:\[  FAILED  \]|FAIL:|ERROR:) ([\w./]+)', text, re.M)
        begun = re.findall(r'^\[ RUN      \] ([\w./]+)', text, re.M)  # a crash or a hang comes to no report
        how = ' (hangs)' if code is None else f' (signal {-code})' if code < 0 else ''
        return (failed[:1] or begun[-1:] or ['no test'])[0] + how


def tame():
    """Between fork and exec of a test: a mutant may write without end, and take all the memory there is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    with open('/proc/self/oom_score_adj', 'w') as score:  # the first that the kernel ends
        score.write('1000')


def verdict(mutant, source, tests):
    """('killed', by), ('survived', ''), ('stillborn', '') or ('equivalent', '')."""
    build = tests.build
    where = build.scratch / mutant.id
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
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
        if not build.link_all(replaced, where):
            return 'stillborn', ''
        failure = tests.first_failure(mutant, where / 'lib', where)
        return ('killed', ' '.join(failure)) if failure else ('survived', '')
    finally:
        shutil.rmtree(where, ignore_errors=True)


class Cache:
    """Verdicts of earlier runs. A killed mutant stays killed as long as the program that killed it is the same; one
    that survived is asked again whenever any program has changed."""

    def __init__(self, path, fresh):
        self.path = path
        self.entries = {} if fresh or not path.exists() else json.loads(path.read_text())
        self.lock = threading.Lock()

    @staticmethod
    def key(mutant, source, tests):
        return digest(mutant.path, mutant.apply(source), tests.build.library)

    @staticmethod
    def judges(tests, outcome, by):
        return tests.digests.get(by.split(' ')[0]) if outcome == 'killed' else tests.all()

    def get(self, mutant, source, tests):
        outcome, by, judges = self.entries.get(self.key(mutant, source, tests), ('', '', None))
        return (outcome, by) if outcome and judges == self.judges(tests, outcome, by) else None

    def put(self, mutant, source, tests, outcome, by):
        with self.lock:
            self.entries[self.key(mutant, source, tests)] = (outcome, by, self.judges(tests, outcome, by))
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


def is_for_threads(mutant):
    return mutant.operator == 'drop lock'


def judge(chosen, sources, tests_of, cache, jobs):
    """{mutant: outcome}, each printed as it comes."""
    accepted = read_accepted()

    def one(mutant):
        source, tests = sources[mutant.path], tests_of[is_for_threads(mutant)]
        known = ('accepted', '') if (mutant.path, mutant.operator, mutant.text) in accepted else None
        result = known or cache.get(mutant, source, tests)
        if result is None:
            result = verdict(mutant, source, tests)
            cache.put(mutant, source, tests, *result)
        outcome, by = result
        show(mutant, source, f'killed by {by}' if by else 'SURVIVED' if outcome == 'survived' else outcome)
        return mutant, outcome

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, chosen))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/dev', help='an ordinary build (build/dev)')
    parser.add_argument('--tsan', type=pathlib.Path, default=ROOT / 'build/tsan_files',
                        help='and one for threads (build/tsan_files)')
    parser.add_argument('--part', choices=PARTS, default='core', help='of the library (core)')
    parser.add_argument('--count', type=int, default=200, help='how many mutants (200)')
    parser.add_argument('--seed', default='1', help='which ones')
    parser.add_argument('--files', default='', help='only files whose path matches this')
    parser.add_argument('--list', action='store_true', help='print the mutants and do nothing')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='mutants at a time (CPUs)')
    parser.add_argument('--only', nargs='+', metavar='ID', help='the mutants with these ids, chosen or not')
    parser.add_argument('--fresh', action='store_true', help='forget the verdicts of earlier runs')
    return parser.parse_args()


def main():
    options = arguments()
    part = PARTS[options.part]
    files = (f for layer in part.layers for f in sorted((ROOT / 'src' / layer).glob('*')) if f.suffix in ('.h', '.cpp'))
    sources = {str(f.relative_to(ROOT)): f.read_text() for f in files}
    sources.pop('src/hccl/gloo_module.cpp', None)  # a library of its own
    sources = {path: text for path, text in sources.items() if re.search(options.files, path)}
    if options.only:
        every = (m for path, text in sources.items() for pile in mutate.mutants_of(path, text).values() for m in pile)
        chosen = [m for m in every if m.id in options.only]
    else:
        chosen = mutate.sample(sources, options.count, options.seed)
    if options.list:
        for mutant in chosen:
            show(mutant, sources[mutant.path], '')
        return 0
    scratch = ROOT / 'build/mutants'
    scratch.mkdir(parents=True, exist_ok=True)
    tests_of = {}
    for threads in {is_for_threads(mutant) for mutant in chosen}:
        build = Build((options.tsan if threads else options.build).resolve(), scratch, part.layers)
        tests_of[threads] = Tests(build, part.threads if threads else part.plain)
        tests_of[threads].measure()
    cache = Cache(scratch / ('only.json' if options.only else 'results.json'), options.fresh or options.only is not None)
    outcomes = list(judge(chosen, sources, tests_of, cache, options.jobs).values())
    killed, survived = outcomes.count('killed'), outcomes.count('survived')
    share = killed / max(1, killed + survived)
    print(f'{killed} killed, {survived} survived: {100 * share:.1f} % (expected {100 * TARGET_SHARE:.0f}); left out: '
          + ', '.join(f'{outcomes.count(kind)} {kind}' for kind in ('accepted', 'equivalent', 'stillborn')))
    return 0 if share >= TARGET_SHARE or not outcomes else 1


if __name__ == '__main__':
    sys.exit(main())
