import sys

print("tool", *sys.argv[1:])
