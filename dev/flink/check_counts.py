#!/usr/bin/env python3
"""check_counts.py RESULT_DIR --words W --keys K [--hot F] [--lines N] [--rate R --rate-file F]

Checks what an ended job wrote into its --result-dir: every word must have been counted exactly as often as the lines of
its source contain it, whatever restarts and rescales happened. The options are those the job was given. With the load
(--rate, --rate-file) or a total (--lines) it also checks that the source produced exactly that many lines.
Prints one line and exits 0, or says what differs and exits 1.
"""

import argparse
import collections
import decimal
import pathlib
import sys

MASK = (1 << 64) - 1
SHOWN = 10


def word(line, index, words, keys, hot):
    """The same function as Words.java."""
    h = (line * words + index) * 0x9E3779B97F4A7C15 & MASK
    h ^= h >> 32
    h = h * 0xD6E8FEB86659FD93 & MASK
    h ^= h >> 32
    if (h >> 11) / (1 << 53) < hot:
        return "word-hot-------------"
    return f"word-{1_000_000_000 + (h & 0x7FFFFFFF) % keys}-----"


def share(split, splits, total):
    """Lines of one partition when `total` lines are dealt out in turn."""
    return 0 if total <= split else (total - split - 1) // splits + 1


def produced(first_rate, rate_file, start_ms):
    """Lines up to the `end` line: the same sums of whole numbers as OfferedLoad.java."""
    steps, end = [], None
    for line in rate_file.read_text().splitlines():
        fields = line.split()
        if len(fields) != 2:
            continue
        if fields[1] == "end":
            end = min(end or int(fields[0]), int(fields[0]))
        else:
            steps.append((int(fields[0]), thousandths(fields[1])))
    if end is None:
        sys.exit(f"check_counts.py: {rate_file} has no 'end' line")
    total, now, rate = 0, start_ms, thousandths(first_rate)
    for at, next_rate in [*sorted(steps, key=lambda step: step[0]), (end, 0)]:
        until = min(at, end)
        total += rate * max(0, until - now)
        now, rate = max(now, until), next_rate
    return total // 1_000_000


def thousandths(rate):
    return int(decimal.Decimal(rate) * 1000)


def read_splits(folder):
    """{split number: its fields}, as the source wrote them at its end."""
    splits = {}
    for file in folder.glob("split-*"):
        fields = dict(line.split() for line in file.read_text().splitlines())
        splits[int(file.name.removeprefix("split-"))] = {name: int(value) for name, value in fields.items()}
    return splits


def check_splits(splits, expected_total):
    if not splits:
        return ["the source has not ended: there is no split-* file"]
    count = next(iter(splits.values()))["splits"]
    problems = [f"split {n} has not ended: there is no split-{n}" for n in range(count) if n not in splits]
    if problems or expected_total is None:
        return problems
    for n, split in sorted(splits.items()):
        due = share(n, count, expected_total)
        if split["lines"] != due:
            problems.append(f"split {n} produced {split['lines']} lines, due were {due} of {expected_total}")
    return problems


def read_parts(folder):
    """The counts of all parts, and what is wrong with the set of parts."""
    counts, problems, parallelism, seen = collections.Counter(), [], set(), collections.Counter()
    for file in sorted(folder.glob("part-*")):
        head, *lines = file.read_text().splitlines()
        parallelism.add(int(head.removeprefix("# parallelism ")))
        seen[int(file.name.split("-")[1])] += 1
        for line in lines:
            key, count = line.split()
            if key in counts:
                problems.append(f"{key} is counted by two subtasks, also in {file.name}")
            counts[key] += int(count)
    if len(parallelism) != 1:
        problems.append(f"parts of one execution were expected, found parallelisms {sorted(parallelism) or 'none'}")
    elif seen != collections.Counter(range(*parallelism)):
        problems.append(f"one part for each of {max(parallelism)} subtasks was expected, found {dict(seen)}")
    return counts, problems


def expected_counts(splits, words, keys, hot):
    counts = collections.Counter()
    for number, split in splits.items():
        for offset in range(split["lines"]):
            line = offset * split["splits"] + number
            counts.update(word(line, i, words, keys, hot) for i in range(words))
    return counts


def check_words(found, expected):
    wrong = sorted(key for key in found.keys() | expected.keys() if found[key] != expected[key])
    problems = [f"{key}: counted {found[key]}, expected {expected[key]}" for key in wrong[:SHOWN]]
    if wrong:
        surplus = sum(found.values()) - sum(expected.values())
        problems.append(f"{len(wrong)} of {len(expected)} keys differ, {surplus:+d} words in all")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result_dir", type=pathlib.Path)
    parser.add_argument("--words", type=int, default=1)
    parser.add_argument("--keys", type=int, default=997)
    parser.add_argument("--hot", type=float, default=0)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--rate", default="100")
    parser.add_argument("--rate-file", type=pathlib.Path)
    options = parser.parse_args()

    splits = read_splits(options.result_dir)
    total = options.lines
    if options.rate_file and splits:
        start = next(iter(splits.values()))["start_ms"]
        integral = produced(options.rate, options.rate_file, start)
        if total is not None and total != integral:
            sys.exit(f"check_counts.py: --lines is {total}, but the rate file makes {integral}")
        total = integral
    problems = check_splits(splits, total)
    found, wrong_parts = read_parts(options.result_dir)
    problems += wrong_parts
    problems += check_words(found, expected_counts(splits, options.words, options.keys, options.hot))
    if problems:
        print(*problems, sep="\n")
        sys.exit(1)
    lines = sum(split["lines"] for split in splits.values())
    print(f"exact: {lines} lines, {sum(found.values())} words, {len(found)} keys")


if __name__ == "__main__":
    main()
