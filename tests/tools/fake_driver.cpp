// A libcuda.so.1 that says what its environment tells it to, for the tests of ops/machine/cuda.h:
//   FAKE_CUDA=12040   the CUDA that it serves (12.4); FAKE_INIT=100  what cuInit returns; FAKE_CARDS=2  how many cards
//   FAKE_NAME=...     their name; FAKE_PAGES=0  they map none
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int number(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) {
  return number("FAKE_INIT", 0);
}
int cuDriverGetVersion(int* out) {
  *out = number("FAKE_CUDA", 13000);
  return 0;
}
int cuDeviceGetCount(int* out) {
  *out = number("FAKE_CARDS", 1);
  return 0;
}
int cuDeviceGet(int* out, int ordinal) {
  *out = 100 + ordinal;
  return ordinal < number("FAKE_CARDS", 1) ? 0 : 101;
}
int cuDeviceGetName(char* out, int length, int device) {
  const char* const name = std::getenv("FAKE_NAME");
  std::snprintf(out, static_cast<std::size_t>(length), "%s %d", name == nullptr ? "Fake" : name,
                device - 100);
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* out, int device) {
  *out = static_cast<std::size_t>(80 + device - 100) * 1'000'000'000;
  return 0;
}
int cuDeviceGetAttribute(int* out, int attribute, int /*device*/) {
  *out = attribute == 75 ? 9 : attribute == 102 ? number("FAKE_PAGES", 1) : 0;
  return 0;
}
int cuGetErrorString(int error, const char** out) {
  *out = error == 999 ? "unknown error" : "an error of the fake driver";
  return 0;
}

}  // extern "C"
