#!/usr/bin/env python3
"""How many branches, and conditions of decisions (MC/DC), the tests take both ways, where decisions are made.

    coverage.py <build directory of the preset coverage> [-j N] [--list] [--again]

Runs all tests of that build, counts in src/base, src/runtime, src/aclnn and every operator's check and plan, and fails
where a group stays below its bar. What no test can reach is written down in coverage_exceptions.txt, with the reason.
--list: every outcome that no test took. --again: judges the counts that are there, without running tests.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / 'testing/coverage_exceptions.txt'
LLVM = '22'  # the first that counts MC/DC in processes that never end well
GROUPS = {  # name: files, least share of branches
    'check': (r'src/ops/\w+/check\.cpp', 1.0),
    'plan': (r'src/ops/\w+/plan\w*\.cpp', 0.95),
    # without what asks the CPU, whose branches are those of the machine: `check isa` says which sets really ran
    'base': (r'src/base/(?!cpu\.)[\w-]+\.(cpp|h)', 0.95),
    'runtime': (r'src/runtime/\w+\.(cpp|h)', 0.95),
    'aclnn': (r'src/aclnn/\w+\.(cpp|h)', 0.95),
}


def run_tests(build, profiles, jobs):
    shutil.rmtree(profiles, ignore_errors=True)
    profiles.mkdir()
    # %c: counts go to the file as they are made, so that processes that are killed, crash or fork count as well
    environment = dict(os.environ, LLVM_PROFILE_FILE=f'{profiles}/%c%m.profraw')
    subprocess.run(['ctest', '--test-dir', build, '--output-on-failure', '-j', jobs], env=environment, check=True)


def export(build, profiles):
    merged = profiles / 'merged'
    counts = [path for path in profiles.glob('*.profraw') if path.stat().st_size > 0]
    subprocess.run([f'llvm-profdata-{LLVM}', 'merge', '-sparse', '--failure-mode=all', *counts, '-o', merged], check=True)
    library = (build / 'src/libgradus.so').resolve()
    # tests that are linked with what nothing public shows
    tests = [f'--object={path}' for path in sorted(build.glob('tests/base/base_*_test'))
             if b'__llvm_covmap' in path.read_bytes()]
    found = subprocess.run([f'llvm-cov-{LLVM}', 'export', '--instr-profile', merged, library, *tests],
                           check=True, capture_output=True, cwd=ROOT)
    return json.loads(found.stdout)['data'][0]


def name_of(filename):
    """As the compiler was told to write it, beginning at the directory of the build or not; from the project's own."""
    path = pathlib.Path(filename)
    return (path.relative_to(ROOT) if path.is_absolute() and path.is_relative_to(ROOT) else path).as_posix().removeprefix(
        'build/')


@functools.cache
def lines_of(name):
    return (ROOT / name).read_text().split('\n')


def is_constant(branch, filename):
    """`while (0)` of a macro decides nothing."""
    first, begin, last, end = branch[:4]
    return first == last and lines_of(name_of(filename))[first - 1][begin - 1:end - 1] in ('0', '1', 'true', 'false')


def branches_of(file):
    """Counts (true, false) of every branch, by place; a macro's by the place of its use. Instances of a template
    count together."""
    counts = collections.defaultdict(lambda: [0, 0])

    def add(branches, filenames, used=()):
        for branch in branches:
            line, column, _, _, true, false, file_number, *_ = branch
            if is_constant(branch, filenames[file_number]):
                continue
            place = counts[(*used, line, column)]
            place[0] += true
            place[1] += false

    add(file['branches'], [file['filename']] * 256)
    for expansion in file.get('expansions', []):
        add(expansion['branches'], expansion['filenames'], tuple(expansion['source_region'][:2]))
    return counts


def conditions_of(file):
    """Whether each condition of a decision has been seen to decide alone, by place."""
    seen = collections.defaultdict(list)
    for record in file.get('mcdc_records', []):
        line, column, conditions = record[0], record[1], record[9]
        known = seen[(line, column)]
        if len(known) < len(conditions):
            known.extend([False] * (len(conditions) - len(known)))
        for i, covered in enumerate(conditions):
            known[i] |= covered
    return seen


class Exceptions:
    """Blocks of three lines: file and outcome, the line as it stands, why."""

    def __init__(self, text):
        self.used = set()
        self.known = set()
        for block in re.split(r'\n\s*\n', re.sub(r'(?m)^#.*\n?', '', text).strip()):
            if not block:
                continue
            where, line, *why = block.split('\n')
            match = re.fullmatch(r'(src/\S+): (true|false)', where)
            if not match or not why:
                sys.exit(f'{EXCEPTIONS.name}: not "file: true or false", line, reason:\n{block}')
            self.known.add((match[1], match[2], line.strip()))

    def has(self, *key):
        if key in self.known:
            self.used.add(key)
        return key in self.known


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('-j', default='2')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--again', action='store_true')
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    profiles = build / 'profiles'
    if not arguments.again:
        run_tests(build, profiles, arguments.j)
    exceptions = Exceptions(EXCEPTIONS.read_text())

    total = {name: collections.Counter() for name in GROUPS}
    missing = collections.defaultdict(list)
    for file in export(build, profiles)['files']:
        name = name_of(file['filename'])
        group = next((group for group, (pattern, _) in GROUPS.items() if re.fullmatch(pattern, name)), None)
        if group is None:
            continue
        lines = lines_of(name)
        sums = total[group]
        for place, counts in sorted(branches_of(file).items()):
            text = lines[place[0] - 1].strip()
            for outcome, count in zip(('true', 'false'), counts):
                sums['branches'] += 1
                sums['taken'] += count > 0
                if count > 0:
                    continue
                if exceptions.has(name, outcome, text):
                    sums['excepted'] += 1
                else:
                    missing[group].append(f'{name}:{place[0]}: never {outcome}: {text}')
        for conditions in conditions_of(file).values():
            sums['conditions'] += len(conditions)
            sums['decided'] += sum(conditions)

    failed = False
    print(f'{"":8} branches    taken  excepted   share   bar   MC/DC')
    for name, (_, bar) in GROUPS.items():
        sums = total[name]
        if sums['branches'] == 0:
            sys.exit(f'coverage.py: no branch of {name} was counted')
        share = (sums['taken'] + sums['excepted']) / sums['branches']
        failed |= share < bar
        decided = sums['decided'] / sums['conditions'] if sums['conditions'] else 1.0
        print(f'{name:8} {sums["branches"]:8} {sums["taken"]:8} {sums["excepted"]:9} {share:7.1%} {bar:5.0%} {decided:7.1%}'
              f'{"  below the bar" if share < bar else ""}')
        if arguments.list or share < bar:
            print('\n'.join(missing[name]))
    stale = exceptions.known - exceptions.used
    for name, outcome, line in sorted(stale):
        print(f'{EXCEPTIONS.name}: taken by a test, or not there any more: {name}: {outcome}: {line}')
    sys.exit(failed or bool(stale))


if __name__ == '__main__':
    main()
