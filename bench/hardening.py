#!/usr/bin/env python3
"""What the hardening of cmake/flags.cmake costs: the whole call on a tiny tensor, and the operators on real shapes.

    hardening.py <directory for builds> [--rounds N] [operator…]

Builds the library three times, without, with, and with hardening in kernels, too, and runs gradus bench of each in turn,
N times. Shown are the medians over the rounds beside those without: 1.00 is no difference. For a machine at rest.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
VARIANTS = ('off', 'on', 'kernels')


def build(variant, directory):
    subprocess.run(['cmake', '-S', ROOT, '-B', directory, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release',
                    '-DGRADUS_TESTS=OFF', f'-DGRADUS_HARDENING={variant}'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['cmake', '--build', directory, '--target', 'gradus', 'gradus_cli'], check=True)


def measure(directory, operators):
    """Seconds by what was run."""
    done = subprocess.run([directory / 'cli/gradus', 'bench', '--quick', '--json', *operators], stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    times = {}
    for kind, field in ('whole_calls', 'microseconds'), ('results', 'operator_seconds'):
        for result in report[kind]:
            name = ' '.join(str(result[key]) for key in ('operator', 'dtype', 'model', 'arguments'))
            times[kind, name] = result[field]['median']
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('builds', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('operators', nargs='*')
    arguments = parser.parse_args()
    for variant in VARIANTS:
        build(variant, arguments.builds / variant)
    seen = {variant: collections.defaultdict(list) for variant in VARIANTS}
    for _ in range(arguments.rounds):
        for variant in VARIANTS:
            for run, seconds in measure(arguments.builds / variant, arguments.operators).items():
                seen[variant][run].append(seconds)

    ratios = collections.defaultdict(list)
    print('     on  kernels')
    for run in seen['off']:
        off, *others = (statistics.median(seen[variant][run]) for variant in VARIANTS)
        shown = [other / off for other in others]
        ratios[run[0]].append(shown)
        print('{:7.3f}  {:7.3f}  {}: {}'.format(*shown, *run))
    for kind, of_kind in ratios.items():
        print('{:7.3f}  {:7.3f}  geometric mean of {} {}'.format(
            *(statistics.geometric_mean(column) for column in zip(*of_kind)), len(of_kind), kind))


if __name__ == '__main__':
    main()
