// A run reads these besides its rows: base, tokenizer, chat template, rewards. A checkpoint keeps their
// checksums, so that a resumed run says what was changed in place.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "config/plan.h"
#include "train/opening/open_model.h"

namespace hone::train {

// {"method": "sft", "files": {"the base model": {"model.safetensors": [bytes, crc32c], ...}, ...}}. Of a large file its
// first and last bytes and 64 pieces between them are read: training changes all of it.
base::Json input_files(const config::Plan& plan, const OpenedText& text);

// [bytes, crc32c] of a file, of which large ones are sampled as above.
base::Json file_print(const base::fs::path& file);

// Returns what the run of `adapter` read: from hone_inputs.json beside a finished adapter, or from a
// checkpoint's hone_state.json. An empty object where neither is there: of another program, or of an older
// hone.
base::Json adapter_inputs(const base::fs::path& adapter);

// The base in `model` (a folder or a GGUF) against the one that the run of `adapter` noted. Only files of the same name are
// compared: others are another format of a model.
struct BaseComparison {
  bool known = false;                // at least one file could be compared
  std::vector<std::string> changed;  // names of files with other contents
};
BaseComparison compare_base(const base::fs::path& adapter, const base::fs::path& model);

// One sentence a change, of those that both know: "the base model changed: model.safetensors has other contents".
std::vector<std::string> changed_inputs(const base::Json& before, const base::Json& now);

// UserError when a run would go on with another reference model (ref_model) than it began with, by its files; where those lie
// does not matter. `before`: of the checkpoint; null: it does not say.
void require_same_reference(const base::Json& before, const base::Json& now, std::string_view option);

// UserError (CKPT-05) when the checkpoint, which is whole, is of a run of another method.
void require_same_method(const base::fs::path& checkpoint, const config::Plan& plan);

}  // namespace hone::train
