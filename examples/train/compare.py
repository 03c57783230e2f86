#!/usr/bin/env python3
"""Runs train.py with PyTorch (eager and compiled), with Gradus and in double, and draws what came out on a page.

    compare.py [--models llama mamba2 nsa] [--steps 20] [--page curves.html]

Every run is a process of its own, so that its peak memory is its own. The claim "the same curve" is an inequality: over
the steps, the largest distance of Gradus' loss from that of the run in double is not above PyTorch's bf16.
"""

import argparse
import html
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNS = {
    "torch": ("--impl", "torch"),
    "torch compiled": ("--impl", "torch", "--compile"),
    "gradus": ("--impl", "gradus"),
    "gradus compiled": ("--impl", "gradus", "--compile"),
    "f64": ("--impl", "f64"),
}
PYTORCH, OURS = ("torch", "torch compiled"), ("gradus", "gradus compiled")
COLOURS = {"torch": "#888", "torch compiled": "#c80", "gradus": "#06c", "gradus compiled": "#0a8", "f64": "#000"}


def run(model: str, name: str, steps: int) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, HERE / "train.py", model, *RUNS[name], "--steps", str(steps), "--json", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.load(file)


def last_loss(result: dict) -> float:
    """Of the last tenth of the steps: of a single batch, PyTorch's and ours come to be 0.06 to 0.2 apart by step 200."""
    losses = result["losses"]
    return statistics.mean(losses[-max(1, len(losses) // 10) :])


def distance(results: dict, name: str) -> float:
    return max(abs(a - b) for a, b in zip(results[name]["losses"], results["f64"]["losses"]))


def summary(model: str, results: dict) -> str:
    def best(names: tuple[str, str]) -> dict:
        return max((results[name] for name in names), key=lambda result: result["tokens_per_second"])

    theirs, ours = best(PYTORCH), best(OURS)
    lines = [
        f"{model}: the faster of both: {ours['tokens_per_second'] / theirs['tokens_per_second']:.2f} times PyTorch's "
        f"tokens/s, {(theirs['peak_bytes'] - ours['peak_bytes']) / 1e9:.2f} GB less memory"
    ]
    for name, result in results.items():
        off = "" if name == "f64" else f", at most {distance(results, name):.5f} from f64"
        lines.append(
            f"  {name:15} {result['tokens_per_second']:7.0f} tokens/s  {result['peak_bytes'] / 1e9:5.2f} GB  "
            f"loss {last_loss(result):.4f}{off}"
        )
    return "\n".join(lines)


def curve(results: dict) -> str:
    """The losses as an SVG of 640 × 320, axes labelled at their ends."""
    values = [loss for result in results.values() for loss in result["losses"]]
    low, high, steps = min(values), max(values), len(results["f64"]["losses"])
    span = high - low or 1.0
    shapes = [
        f'<text x="0" y="12">{high:.2f}</text><text x="0" y="300">{low:.2f}</text>'
        f'<text x="40" y="318">step 1</text><text x="640" y="318" text-anchor="end">{steps}</text>'
    ]
    for name, result in results.items():
        points = " ".join(
            f"{40 + 600 * i / max(steps - 1, 1):.1f},{300 - 290 * (loss - low) / span:.1f}"
            for i, loss in enumerate(result["losses"])
        )
        shapes.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    return f'<svg viewBox="0 0 640 320" role="img">{"".join(shapes)}</svg>'


def page(everything: dict[str, dict]) -> str:
    legend = " ".join(f'<span style="color:{colour}">■ {name}</span>' for name, colour in COLOURS.items())
    parts = [
        f"<h2>{model}</h2>{curve(results)}<pre>{html.escape(summary(model, results))}</pre>"
        for model, results in everything.items()
    ]
    style = "body{font:16px sans-serif;max-width:760px;margin:2em auto;padding:0 1em}svg text{font-size:11px}pre{overflow:auto}"
    return (
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Training with Gradus</title><style>{style}</style>"
        f"<h1>Loss by step</h1><p>{legend}</p>{''.join(parts)}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=("llama", "mamba2", "nsa"), default=["llama", "mamba2", "nsa"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--page", type=Path, default=Path("curves.html"))
    args = parser.parse_args()
    everything, failed = {}, []
    for model in args.models:
        everything[model] = {name: run(model, name, args.steps) for name in RUNS}
        print(summary(model, everything[model]), flush=True)
        theirs, ours = (max(distance(everything[model], name) for name in names) for names in (PYTORCH, OURS))
        if not ours <= theirs:
            failed.append(model)
    args.page.write_text(page(everything))
    print(f"wrote {args.page}" + (f"; farther from f64 than PyTorch: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
