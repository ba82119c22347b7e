// The header of a safetensors file, and every byte that it hands out.
#include "base/files/safetensors.h"
#include "base/hash.h"
#include "fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    const fuzz::InputFile file(bytes, ".safetensors");
    const base::SafetensorsFile opened = base::SafetensorsFile::open(file.path());
    std::uint64_t hash = base::kHashStart;
    for (const base::StoredTensor& tensor : opened.tensors()) hash = base::hash64(tensor.bytes, hash);
    if (hash == 0 && opened.find("x") != nullptr) std::puts("");  // so that the bytes are read
  });
}
