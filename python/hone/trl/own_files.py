"""Files of a run's result that this process writes itself: hone_files.json has their new checksums, so that they stay hone's own."""
import json
import os
import pathlib

LIST, FORMAT = "hone_files.json", "hone-files-1"  # src/train/own_files.h
PIECE, PIECES = 1 << 16, 64                       # src/train/input_files.cpp


def _table():
    out = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        out.append(byte)
    return out


TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def print_of(path):
    """[bytes, checksum]; of a large file the program takes pieces, and none is written here."""
    data = path.read_bytes()
    return [len(data), crc32c(data)] if len(data) <= PIECE * (PIECES + 2) else None


def claim(folder, *names):
    """Files that were hone's before this process wrote over them, as hone_files.json lists them."""
    path = pathlib.Path(folder) / LIST
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if not isinstance(listed, dict) or listed.get("format") != FORMAT or not isinstance(listed.get("result"), dict):
        return
    for name in names:
        file = path.parent / name
        now = print_of(file) if name in listed["result"] and file.is_file() else None
        if now is not None:
            listed["result"][name] = now
    staged = path.with_name(f".{LIST}.{os.getpid()}")
    staged.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    os.replace(staged, path)
