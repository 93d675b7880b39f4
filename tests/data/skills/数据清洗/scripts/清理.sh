#!/bin/sh
# Lines that came before, and empty ones, go.
mkdir -p 输出 && awk 'NF && !seen[$0]++' "$1" > "输出/$(basename "$1")"
