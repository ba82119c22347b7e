"""Records what datasets reads of JSON Lines and CSV files that are not quite so.

usage: python tests/parity/record_text_rows.py
Writes tests/fixtures/data/text_rows.json: of each file its bytes (Latin-1) and the rows, or that there is an error.
"""

import json
import pathlib
import tempfile

import datasets

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL)

FILES = {
    "nan.jsonl": b'{"text": "first", "score": NaN}\n{"text": "x", "score": Infinity}\n{"text": "y", "score": -Infinity}\n',
    "nan_in_list.jsonl": b'{"text": "a \\" NaN", "v": [1, NaN]}\n{"text": "Infinity", "v": [-Infinity]}\n',
    "big.jsonl": b'{"text": "y", "score": 123456789012345678901234567890}\n{"text": "y", "score": 1.5}\n',
    "huge.jsonl": b'{"text": "y", "score": 1e999}\n',
    "pretty.jsonl": b'{\n "text": "a b"\n}\n{\n "text": "c d"\n}\n',
    "pretty_blank.jsonl": b'{\r\n "text": "a b",\r\n "v": {\r\n  "w": [\r\n   {"x": 1}\r\n  ]\r\n }\r\n}\r\n\r\n{\r\n "text": "}{",\r\n "v": {"w": []}}',
    "pretty.json": b'{\n "text": "a b"\n}\n',
    "concat.jsonl": b'{"text": "a"}{"text": "b"}\n{"text": "c"}\n',
    "concat_space.jsonl": b'{"text": "a"} {"text": "b"}\n',
    "begins_in_line.jsonl": b'{"text": "a"} {"text":\n "b"} {\n"text": "c"}\n',
    "list.jsonl": b'[{"text": "a"},\n {"text": "b"}]\n',
    "u2028.jsonl": '{"text": "a\u2028b"}\n{"text": "c\u0085d"}\n'.encode(),
    "nul.jsonl": b'{"text": "a\\u0000b"}\n{"text": "c"}\n',
    "half.jsonl": b'{"text": "whole"}\n{"text": "half \\ud83d pair"}\n',
    "twice.jsonl": b'{"text": "x"}\n{"text": "first", "text": "second"}\n',
    "comma.jsonl": b'{"text": "first"},\n{"text": "x"},\n',
    "trailing.jsonl": b'{"text": "first",}\n{"text": "x"}\n',
    "single.jsonl": b"{'text': 'first'}\n",
    "comment.jsonl": b'// c\n{"text": "first"}\n',
    "raw_tab.jsonl": b'{"text": "a\tb"}\n',
    "utf8.jsonl": b'{"text": "latin \xe9t"}\n',
    "bom.jsonl": b'\xef\xbb\xbf{"text": "a"}\n{"text": "c"}\n',
    "bom_within.jsonl": b'{"text": "a"}\n\xef\xbb\xbf{"text": "c"}\n',
    "cr.jsonl": b'{"text": "a"}\r{"text": "c"}\r',
    "unclosed.jsonl": b'{"text": "a"}\n{"text": "b"',
    "unclosed_within.jsonl": b'{"text": "a"\n{"text": "b"}\n',
    "scalar.jsonl": b'"a"\n"b"\n',
    "na.csv": b'prompt,completion\n"Which, EU or NA?",NA\nAny?,None\nq,n/a\nr,null\ns,\nt,drei\n',
    "numbers.csv": b'prompt,completion\nagent?,007\nall?,42\n',
    "bools.csv": b'prompt,completion\nis,true\nnot,false\n',
    "bools_missing.csv": b'prompt,completion\nis,true\nnot,\n',
    "quoted.csv": b'prompt,completion\none,"007"\ntwo,"42"\n',
    "floats.csv": b'prompt,completion\none,1.0\ntwo,2.50\nthree,1e5\n',
    "whole_missing.csv": b'prompt,completion\none,1\ntwo,\n',
    "all_missing.csv": b'prompt,completion\none,\ntwo,\n',
    "dates.csv": b'prompt,completion\none,2020-01-02\n',
    "mixed.csv": b'prompt,completion\none,1\ntwo,x\nthree,007\n',
    "label.csv": b'prompt,completion,label\none,a,True\ntwo,b,nan\n',
    "infinite.csv": b'prompt,completion\none,inf\ntwo,1.5\n',
    "spaces.csv": b'prompt, completion\none, eins\n',
    "semicolon.csv": b'\xef\xbb\xbfprompt;completion\none;eins\n',
    "unsigned.csv": b'prompt,completion\none,18446744073709551615\n',
}


def read(name, data, folder):
    path = pathlib.Path(folder) / name
    path.write_bytes(data)
    try:
        rows = datasets.load_dataset(path.suffix[1:].replace("jsonl", "json"), data_files=str(path), split="train", cache_dir=folder)
        return {"rows": rows.to_list()}
    except Exception:  # of many classes
        return {"error": True}


def main():
    out = []
    for name, data in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            out.append({"file": name, "bytes": data.decode("latin-1"), **read(name, data, folder)})
    text = json.dumps({"versions": {"datasets": datasets.__version__}, "files": out}, separators=(",", ":"))
    (FIXTURES / "data" / "text_rows.json").write_text(text + "\n")


main()
