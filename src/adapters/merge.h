// An adapter folded into a copy of its base model.
#pragma once

#include "base/file.h"

namespace hone::adapters {

// W + s * B A in fp32 for every adapted linear, cast back to the base's stored dtype, written with everything
// else of the base model to a new folder (config, generation config, tokenizer, template too). The base is
// never touched. UserError when the folder exists and is not empty.
void merge_to_folder(const base::fs::path& base_model, const base::fs::path& adapter,
                     const base::fs::path& out);

}  // namespace hone::adapters
