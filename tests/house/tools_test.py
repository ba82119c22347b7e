#!/usr/bin/env python3
"""The project's own tools: each refuses what it is there to refuse."""
import json
import subprocess
import sys

sys.dont_write_bytecode = True
from scripts import ROOT, load, run_tests

FRAGMENTS = 5  # sentences of headers without a main verb: the most that may be there


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)


def rooms(folder, **files):
    """check_rooms on a tree; keys are paths with __ for / and _h or _cpp at the end."""
    for key, text in files.items():
        path = folder / (key.replace("__", "/").replace("_h", ".h") if key.endswith("_h")
                         else key.replace("__", "/").replace("_cpp", ".cpp"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return run(ROOT / "tools" / "check_rooms", folder)


def rooms_of(folder, files):
    """The same; keys are paths."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return run(ROOT / "tools" / "check_rooms", folder)


def test_rooms_accept_a_tree_that_points_down(folder):
    done = rooms(folder, base__a_h="#pragma once\n", ops__b_cpp='#include "base/a.h"\n#include <ATen/ATen.h>\n',
                 report__c_cpp="std::cout << 1;\n", main_cpp='#include "report/c.h"\nreturn exit(1);\n')
    assert done.returncode == 0, done.stdout
    assert "4 files" in done.stdout, done.stdout


def test_rooms_refuse_an_include_that_points_up(folder):
    done = rooms(folder, base__a_cpp='\n#include "train/loop/loop.h"\n')
    assert done.returncode == 1
    assert "a.cpp:2: base/ includes train/loop/loop.h; src/rooms.txt does not say that it uses train" in done.stdout, done.stdout


def test_rooms_refuse_an_include_that_a_sub_room_may_not_have(folder):
    for file, target, message in (
            ("ops/attention.cpp", "ops/backend/cpu/level.h", "ops/* includes {}; src/rooms.txt does not say that it uses"),
            ("ops/attention.h", "ops/backend/operators.h", "a header of ops/* includes {}; src/rooms.txt does not say"),
            ("ops/backend/reference/rope.cpp", "ops/backend/cpu/rows.h", "ops/backend/reference includes {}; src/rooms.txt does not say"),
            ("ops/backend/cpu/rows.cpp", "ops/backend/reference/reference.h", "ops/backend/cpu includes {}; src/rooms.txt does not say"),
            ("ops/backend/cpu/avx2/rows.cpp", "ops/backend/cpu/amx/rows.h", "ops/backend/cpu/avx2 includes {}; src/rooms.txt does not say"),
            ("model/config/families.h", "model/layers/moe.h", "a header of model/config includes {}; src/rooms.txt does not say"),
            ("model/config/families.cpp", "model/files/open.h", "model/config includes {}; src/rooms.txt does not say"),
            ("model/layers/moe.cpp", "text/tokenizer.h", "model/layers includes {}; src/rooms.txt does not say that it uses text"),
            ("model/layers/moe.h", "model/causal_lm.h", "model/layers includes {}; src/rooms.txt does not say that it uses model/*"),
            ("model/attic/moe.cpp", "base/json.h", "model/attic/moe.cpp is in no sub-room"),
            ("model/layers/moe.cpp", "model/attic/moe.h", "{} is in no sub-room")):
        done = rooms_of(folder, {file: f'#pragma once\n#include "{target}"\n'})
        assert done.returncode == 1 and message.format(target) in done.stdout, (file, target, done.stdout)
        (folder / file).unlink()
    done = rooms_of(folder, {"ops/attention.cpp": '#include "ops/backend/operators.h"\n#include "ops/linear.h"\n',
                             "ops/backend/operators.h": '#pragma once\n#include "ops/attention.h"\n#include "base/error.h"\n',
                             "ops/backend/cpu/avx2/deeper/rows.cpp": '#include "ops/backend/cpu/avx2/rows.h"\n',
                             "model/causal_lm.h": '#pragma once\n#include "model/layers/moe.h"\n#include "data/records/record.h"\n'})
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_a_table_whose_sub_rooms_point_up(folder):
    check = load(ROOT / "tools" / "check_rooms")
    for text, message in (("a/one  a/two\na/two\n", "a/one includes a/two, which stands below it"), ("a/one | a/two\n", "has no line"),
                          ("a/one b\n", "a has no line that says that it uses b")):
        table = folder / "rooms.txt"
        table.write_text("b PLAIN\na PLAIN\n" + text)
        try:
            check.read_sub_rooms(table, check.read_table(table))
            assert False, text
        except SystemExit as error:
            assert message in str(error), error


def test_rooms_refuse_backends_outside_ops(folder):
    for room in ("learn", "main"):
        file = "main.cpp" if room == "main" else f"{room}/a.cpp"
        done = rooms_of(folder, {file: '\n#include "ops/backend/cpu/level.h"\n'})
        assert done.returncode == 1 and file + ":2: includes ops/backend/cpu/level.h: outside ops" in done.stdout, done.stdout
        (folder / file).unlink()
    for file, code in (("learn/a.cpp", "if (x.is_cpu()) {"), ("ops/a.cpp", "if (x.device().is_cpu ()) {"),
                       ("ops/machine/a.cpp", "return x.is_cpu();")):
        done = rooms_of(folder, {file: f"\n{code}\n"})
        assert done.returncode == 1 and "a.cpp:2: is_cpu() outside ops/backend" in done.stdout, done.stdout
        (folder / file).unlink()
    done = rooms_of(folder, {"ops/backend/cpu/a.cpp": "return x.is_cpu();\n", "learn/a.cpp": "// is_cpu()\n"})
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_more_than_forty_files_in_a_folder(folder):
    for room in ("ops", "learn"):
        done = rooms_of(folder, {f"{room}/file_{i}.cpp": "\n" for i in range(41)})
        assert done.returncode == 1 and "41 files; a folder has at most 40" in done.stdout, done.stdout
        (folder / f"{room}/file_0.cpp").unlink()
    done = rooms_of(folder, {})
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_a_name_that_two_files_of_a_room_define(folder):
    hidden = "namespace hone::learn {\n\nnamespace {\n\n%s\n\n}  // namespace\n\n}  // namespace hone::learn\n"
    same = [("struct Row {};", "struct Row {};"), ("constexpr int kMost = 3;", "constexpr double kMost = 4;"),
            ("void step(int a, double b = 1) {", "void step(int other, double more) {")]
    for one, two in same:
        done = rooms(folder, learn__a_cpp=hidden % one, learn__b_cpp=hidden % two)
        assert done.returncode == 1 and "b.cpp:5: the " in done.stdout and "defined in learn/a.cpp too" in done.stdout, done.stdout
    done = rooms(folder, learn__a_cpp=hidden % "void step(int a) {", learn__b_cpp=hidden % "void step(double a) {",
                 report__c_cpp=hidden.replace("learn", "report") % "void step(int a) {")
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_a_long_function(folder):
    body = "  step();\n" * 69
    for head in ("void run() {\n", "std::vector<int> Loop::run(int a,\n                           int b) {\n"):
        done = rooms(folder, learn__a_cpp=head + body + "}\n")
        assert done.returncode == 1 and "a.cpp:1: a function of 7" in done.stdout, done.stdout
    done = rooms(folder, learn__a_cpp="void run() {\n" + body[:-len("  step();\n")] + "}\n\nconstexpr int kAll[] = {\n" + "  1,\n" * 99 + "};\n")
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_libtorch_in_a_plain_room(folder):
    for header in ("ATen/core/Tensor.h", "torch/torch.h", "c10/util/Half.h"):
        done = rooms(folder, report__a_cpp=f"#include <{header}>\n")
        assert done.returncode == 1 and f"must not include libtorch's {header}" in done.stdout, done.stdout


def test_rooms_refuse_ways_to_print_that_let_control_characters_through(folder):
    for code in ("printf(1);", "std::puts(x);", "fmt::print(1);", "std::fwrite(a, 1, 2, stdout);", "std::fputs(x, stderr);",
                 "write(STDOUT_FILENO, a, 2);", "::write(2, a, 2);", "std::cout.rdbuf(x);", "std::clog << 1;"):
        done = rooms(folder, commands__a_cpp="int f() {\n  " + code + "\n}\n")
        assert done.returncode == 1 and "a.cpp:2: prints past base::printable()" in done.stdout, code + done.stdout
    done = rooms(folder, commands__a_cpp="out.write(2, a); std::cerr << 1; snprintf(a); ::write(fd, a, 2);\n")
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_printing_exit_and_environment_in_the_library(folder):
    for code in ("std::cout << 1;", "std::cerr << 1;", "printf(1);", "std::printf(1);", "fmt::print(1);", "puts(x);",
                 "std::exit(1);", "exit(1);", "std::abort();", "std::getenv(name);", "std::fprintf(stderr, x);"):
        done = rooms(folder, learn__a_cpp="int f() {\n  " + code + "\n}\n")
        assert done.returncode == 1 and "a.cpp:2: learn/" in done.stdout, code + done.stdout


def test_rooms_read_code_and_not_comments_or_text(folder):
    done = rooms(folder, learn__a_cpp='// printf(x) and exit(1)\nauto s = "std::cout getenv(x)"; /* puts(x) */\n'
                                      "std::snprintf(b, 1, f); on_exit(1); run.exit(2); fmt::format(f);\n")
    assert done.returncode == 0, done.stdout


def test_rooms_refuse_long_files_and_unguarded_headers_and_unknown_rooms(folder):
    done = rooms(folder, base__a_cpp="\n" * 801, base__b_h="int b();\n", attic__c_cpp="\n")
    for text in ("801 lines", "#pragma once", "attic/ is no room"):
        assert text in done.stdout, done.stdout
    assert done.returncode == 1


def test_arithmetic_is_the_same_every_time_and_keeps_its_files_apart(folder):
    arithmetic = load(ROOT / "tools" / "make_arithmetic.py")
    train, test = arithmetic.sft_split(20000, 20000)
    assert (train, test) == arithmetic.sft_split(20000, 20000)
    mirror = lambda r: tuple(sorted(r["prompt"][0]["content"].split("?")[0].split()[2::2])) + \
        (r["prompt"][0]["content"].split()[3],)
    assert not set(map(mirror, train)) & set(map(mirror, test))
    assert len(train) + len(test) == 10000 + 5050
    for r in train[:200]:
        left, sign, right = r["prompt"][0]["content"].split("?")[0].split()[2:]
        answer = int(left) + int(right) if sign == "+" else int(left) - int(right)
        assert r["completion"] == [{"role": "assistant", "content": str(answer)}]


def test_the_course_of_sums_begins_with_one_digit_and_holds_questions_back(folder):
    assert run(ROOT / "tools" / "make_arithmetic.py", folder, "--train", "800", "--test", "50").returncode == 0
    read = lambda name: [json.loads(line) for line in (folder / name).read_text().splitlines()]
    numbers = lambda r: tuple(sorted(map(int, r["prompt"][0]["content"].split("?")[0].split()[2::2])))
    train, test = read("train.jsonl"), read("test.jsonl")
    assert len(train) == 800 and not set(map(numbers, train)) & set(map(numbers, test))
    assert all(sum(numbers(r)) == int(r["answer"]) and set(r) == {"prompt", "answer"} for r in train + test)
    one_digit = [max(numbers(r)) < 10 for r in train]
    assert all(one_digit[:100]) and sum(one_digit[400:]) == 50
    kind = load(ROOT / "tools" / "compare_completions.py").kind
    kinds = [kind(r) for r in test]
    assert kinds.count("two-digit") == 50 and kinds.count("one-digit") == len(kinds) - 50 > 20


def test_gsm8k_becomes_prompts_with_solutions(folder):
    rows = [{"question": "How many?", "answer": "1000 + 234 = <<1000+234=1234>>1234\n#### 1,234"}]
    (folder / "one.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = run(ROOT / "tools" / "make_gsm8k.py", folder / "out", "--source", folder / "one.jsonl")
    assert done.returncode == 0, done.stderr
    row = json.loads((folder / "out" / "one.jsonl").read_text())
    assert row["solution"] == "1234" and row["prompt"][-1] == {"role": "user", "content": "How many?"}, row
    (folder / "one.jsonl").write_text(json.dumps({"question": "How many?", "answer": "many"}) + "\n")
    done = run(ROOT / "tools" / "make_gsm8k.py", folder / "out", "--source", folder / "one.jsonl")
    assert done.returncode != 0 and "one.jsonl:1: no ####" in done.stderr, done.stderr


def test_a_reward_of_ones_own_grades_digits(folder):
    rewards = load(ROOT / "examples" / "rewards.py")
    message = lambda content: [{"role": "assistant", "content": content}]
    found = rewards.right_digits([message("104"), message("101"), message("10"), "104", message("It is 104")], answer=["104"] * 5)
    assert found == [1.0, 0.5 * 2 / 3, 0.0, 1.0, 0.0], found


def test_the_limit_of_a_grpo_step_counts_the_prompt_once(folder):
    sys.path.insert(0, str(ROOT / "bench"))
    from grpo_limit import Limit
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}))
    weights, head = 100, 50
    found = {"pass": {"layers": 4 * weights * 1024, "head": 4 * head * 1020, "recompute": 0, "lora": 0}, "decode_bytes": 2 * (weights + head),
             "kv_bytes_per_token": 0, "rates": {"bf16_gflops": 1e-9, "read_gbs": 1e-9}}
    step = Limit(found, folder).step(prompt=10, group=2, new=3)
    assert step["train"] == 4 * weights * (10 + 6) + 4 * head * 6, step
    assert step["rollout"] == 2 * weights * 10 + 2 * head + 2 * max(300, 2 * 150 * 2), step
    pairs = 55 + 2 * (3 * 10 + 6)
    assert abs(step["train_all"] - step["train"] - 14 * 16 * pairs) < 1e-6, step


def test_a_chart_has_each_line_and_label(folder):
    sys.path.insert(0, str(ROOT / "bench"))
    from chart import chart
    svg = chart("Title & more", [{"title": "prompt", "lines": {"TRL": [(32, 20)], "hone": [(32, 4), (64, 5)], "limit": []}}])
    assert svg.count("<polyline") == 2 and svg.count("<circle") == 3 and "Title &amp; more" in svg, svg


def test_answers_are_marked_by_their_last_number(folder):
    is_right = load(ROOT / "tools" / "compare_completions.py").is_right
    for completion, expected, right in (("19", "19", True), ("12 + 7 = 19.", "19", True), ("", "0", False),
                                        ("119", "19", False), ("19 or 20", "19", False), ("-5", "5", False)):
        assert is_right(completion, expected) == right, completion


def test_counting_names_failures_skips_and_crashes(folder):
    case = lambda name, result, **more: {"name": name, "status": "RUN", "result": result, **more}
    suite = {"name": "S", "testsuite": [case("a", "COMPLETED", time="7.4s"), case("b", "COMPLETED", failures=[{}]),
                                        case("c", "SKIPPED"), {"name": "d", "status": "NOTRUN", "result": "SUPPRESSED"}]}
    (folder / "p.json").write_text(json.dumps({"testsuites": [suite]}))
    (folder / "p.log").write_text("x.cpp:3: Skipped\nno model here\n\n[  SKIPPED ] S.c (0 ms)\n")
    (folder / "p.exit").write_text("1\n")
    (folder / "crashed.exit").write_text("139\n")
    (folder / "q.tap").write_text("ok one\nnoise\nskip two: why\n")
    (folder / "q.exit").write_text("0\n")
    (folder / "q.seconds").write_text("9\n")
    done = run(ROOT / "tools" / "count_tests.py", folder)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[-1] == "2 passed, 2 failed, 2 skipped", lines
    assert "skipped  p: S.c: no model here" in lines and "FAILED   p: S.b" in lines, lines
    assert "FAILED   crashed: ended with exit code 139" in lines, lines
    assert lines[0].endswith(": q 9, p: S.a 7"), lines[0]


def test_counting_names_results_that_were_cut_short(folder):
    (folder / "p.json").write_text('{"testsuites": [{"name": "S", "tests')
    (folder / "p.exit").write_text("0\n")
    done = run(ROOT / "tools" / "count_tests.py", folder)
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert "FAILED   p.json: no results of GoogleTest" in done.stdout and done.stdout.endswith("0 passed, 1 failed\n"), done.stdout


def test_counting_refuses_a_program_that_ran_nothing(folder):
    (folder / "q.exit").write_text("0\n")
    done = run(ROOT / "tools" / "count_tests.py", folder)
    assert done.returncode == 1 and "ran no test" in done.stdout, done.stdout


def golden(folder, expect, cmd="hone sft"):
    """One golden run against a stand-in for hone that writes a file, both streams, and ends with 2."""
    hone = folder / "hone"
    hone.write_text("#!/bin/sh\n[ $1 = quiet ] || echo made > made\necho out $1\necho err >&2\nexit 2\n")
    hone.chmod(0o755)
    case = folder / "cases" / "one"
    case.mkdir(parents=True, exist_ok=True)
    (case / "cmd").write_text(cmd + "\n")
    (case / "expect").write_text(expect)
    return run(ROOT / "tests" / "runs" / "run.py", "--hone", hone, "--cases", folder / "cases")


def test_golden_runs_pass_and_fail_as_they_should(folder):
    for expect, cmd, text in (("exit 2\nout: out sft\nerr~ ^err$\nfile: made\nnot: absent\n", "hone sft", "ok one"),
                              ("exit 2\nuntouched\n", "hone quiet", "ok one"),
                              ("exit 2\nuntouched\n", "hone sft", "not ok one"),
                              ("exit 0\n", "hone sft", "not ok one"), ("", "hone sft", "not ok one"),
                              ("exit 2\nout: err\n", "hone sft", "not ok one"),
                              ("exit 2\nnot: err\n", "hone sft", "not ok one"),
                              ("exit 2\nfile: other\n", "hone sft", "not ok one"),
                              ("exit 2\nouts: x\n", "hone sft", "not ok one"),
                              ("exit 2\n", "hone a\nhone b", "not ok one"),
                              ("needs: /nowhere\n", "hone sft", "skip one")):
        done = golden(folder, expect, cmd)
        assert done.stdout.startswith(text), (expect, done.stdout, done.stderr)
        assert done.returncode == (1 if text.startswith("not") else 0)


def test_headers_speak_in_sentences(folder):
    """tools/list_fragments on a planted tree, then on this one; lower the bound with each sentence that is mended."""
    header = folder / "src" / "base" / "a.h"
    header.parent.mkdir(parents=True)
    header.write_text("// What a run needs. It is in its plan.\nstruct A {\n  // Of each row.\n  int a;  // What it is.\n};\n")
    listed = run(ROOT / "tools" / "list_fragments", "--tree", folder, "--most", 1)
    assert listed.returncode == 1, listed.stdout
    assert listed.stdout == ("src/base/a.h:1: What a run needs.\nsrc/base/a.h:3: Of each row.\n"
                             "2 sentences without a main verb\n"), listed.stdout
    assert run(ROOT / "tools" / "list_fragments", "--tree", folder, "--most", 2).returncode == 0
    here = run(ROOT / "tools" / "list_fragments", "--most", FRAGMENTS)
    assert here.returncode == 0, here.stdout


def test_tidy_reads_the_commands_of_every_gcc(_):
    """g++ 13 and newer have options here that clang refuses, and each file failed."""
    tidy = load(ROOT / "tools" / "tidy_commands.py")
    said = tidy.for_clang("g++ -O1 -Werror -munroll-only-small-loops -mvzeroupper --param=ggc-min-heapsize=1 -include a/cmake_pch.hxx -c a.cpp")
    assert said.split() == ["g++", "-O1", "-mvzeroupper", "-c", "a.cpp", "-Wno-everything"], said


if __name__ == "__main__":
    run_tests(globals())
