// A driver of NVIDIA for machines that have none: the part of its API that
// dtune calls. FAKE_CUDA_INIT: what cuInit returns; FAKE_CUDA_VERSION;
// FAKE_CUDA_NAMES: "H100,A100". CUDA_VISIBLE_DEVICES counts as for the real
// one: numbers and GPU-<number>, up to the first that is not there; of MIG- the
// first alone.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  return words;
}

std::vector<std::string> visible() {
  const std::vector<std::string> all = split(variable("FAKE_CUDA_NAMES"));
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) return all;
  std::vector<std::string> out;
  for (std::string word : split(variable("CUDA_VISIBLE_DEVICES"))) {
    if (word.rfind("MIG-", 0) == 0) return {all.at(0) + " MIG 1g.10gb"};
    if (word.rfind("GPU-", 0) == 0) word = word.substr(4);
    char* end = nullptr;
    const long number = std::strtol(word.c_str(), &end, 10);
    if (*end != 0 || number < 0 || size_t(number) >= all.size()) break;
    out.push_back(all[size_t(number)]);
  }
  return out;
}

int start() {
  const int code = std::atoi(variable("FAKE_CUDA_INIT").c_str());
  if (code != 0) return code;
  return visible().empty() ? 100 : 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return start(); }

int cuDriverGetVersion(int* version) {
  *version = std::atoi(variable("FAKE_CUDA_VERSION").c_str());
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = int(visible().size());
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, visible().at(size_t(device)).c_str(), size_t(size));
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} << 30;
  return 0;
}

int cuGetErrorString(int code, const char** text) {
  *text = code == 803 ? "system has unsupported display driver / cuda driver "
                        "combination"
                      : "unknown error";
  return 0;
}
}
