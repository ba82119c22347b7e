// A Python script or notebook, read without running it: a child of the user's Python parses the text and folds
// constants, defaults of arguments, the script's own functions and both arms of its conditions into values.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace hone::config {

// What the script trains with:
//   {"last": the trainer whose train() is called last, else the last one that is made; null: none; "either" where it
//    depends on a condition, "unsloth": whether the file imports it,
//    "trained": [places of the calls of train()], "trainers": [{"name", "at"}],
//    "notes": [{"at", "text"}], "ended": why reading ended early, or "", "left_out": lines of a notebook}
// A value is {"at": place} with one of
//   "value": JSON; "list": values; "unknown": why, and "from": the place of the reason; "name": "torch.bfloat16";
//   "function": its name; "absent": true; "either": the values that the arms of a condition leave;
//   "made": "trl.SFTConfig", with "args" {name: value}, "plain" [value], "base" (of ".map"), "own" {class, methods}
//   of a class of the script, and "touched": why its values may be others;
//   "range": [start, stop, step].
// A place is a line, "12", or "cell 3 line 4" of a notebook. YAML and JSON files whose paths are literals are read,
// from the script's folder, else from the working folder. UserError for a text that is no Python, and without an
// interpreter. At most 20 seconds and 4 GiB of a child.
// `words`: the script's own arguments, for its parsers and sys.argv; none: the parsers' defaults are taken.
base::Json fold_script(const std::string& text, const std::string& path,
                       const std::vector<std::string>& words = {});

}  // namespace hone::config
