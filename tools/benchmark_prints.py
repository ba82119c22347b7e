#!/usr/bin/env python3
"""Writes src/doctor/checks/benchmark_prints.txt: hashes of the test items of public benchmarks, and none of their words.

  benchmark_prints.py --jsonl GSM8K question test.jsonl --jsonl HumanEval prompt HumanEval.jsonl --jsonl IFEval prompt input_data.jsonl --csv MMLU 0 16 mmlu.zip > benchmark_prints.txt

A print is the hash of 8 words in a row (src/doctor/checks/word_prints.h). Of each item the two runs with the smallest hashes that no
other item has are written, with 8 hex digits each; items with fewer than 9 words have none. --csv takes a zip of CSV files with a question in that column, and writes
every so many-th item. A heading line is: the name, how many items the benchmark has, and of how many items one is written.
"""
import argparse
import collections
import csv
import io
import json
import zipfile

RUN, KEPT, ITEMS_A_LINE = 8, 2, 6


def words_of(text):
    out = bytearray()
    for byte in text.encode():
        char = chr(byte)
        if byte >= 0x80 or char in "+-*/" or (char.isascii() and char.isalnum()):
            out.append(ord(char.lower()) if byte < 0x80 else byte)
        elif out and out[-1:] != b" ":
            out += b" "
    return bytes(out).strip(b" ").split(b" ")


def run_hash(words):
    value = 0xCBF29CE484222325
    for byte in b" ".join(words):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value ^ value >> 32) % 2**32


def runs_of(text):
    words = words_of(text)
    return {run_hash(words[i:i + RUN]) for i in range(len(words) - RUN + 1)}


def write(name, texts, every=1):
    print(f"# {name} {len(texts)} {every}")
    runs = [runs_of(text) for text in texts]
    items_with = collections.Counter(run for item in runs for run in item)
    own = [sorted(run for run in item if items_with[run] == 1)[:KEPT] for item in runs[::every]]
    items = ["".join(f"{one:08x}" for one in item) for item in own if len(item) == KEPT]
    for i in range(0, len(items), ITEMS_A_LINE):
        print(" ".join(items[i:i + ITEMS_A_LINE]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jsonl", nargs=3, action="append", default=[], metavar=("NAME", "FIELD", "FILE"))
    parser.add_argument("--csv", nargs=4, action="append", default=[], metavar=("NAME", "COLUMN", "EVERY", "ZIP"))
    arguments = parser.parse_args()
    for name, field, path in arguments.jsonl:
        with open(path, encoding="utf-8") as file:
            write(name, [json.loads(line)[field] for line in file if line.strip()])
    for name, column, every, path in arguments.csv:
        texts = []
        with zipfile.ZipFile(path) as archive:
            for member in sorted(archive.namelist()):
                if not member.endswith("_test.csv"):
                    continue
                texts += [row[int(column)] for row in csv.reader(io.StringIO(archive.read(member).decode())) if row]
        write(name, texts, int(every))


main()
