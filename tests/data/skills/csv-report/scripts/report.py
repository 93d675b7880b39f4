#!/usr/bin/env python3
"""One line for each column of a CSV file."""
import csv
import sys


def kind_of(values):
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return "text", min(values), max(values), "-"
    return "number", min(numbers), max(numbers), sum(numbers)


with open(sys.argv[1], newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
for column in rows[0]:
    print(column, *kind_of([row[column] for row in rows]))
