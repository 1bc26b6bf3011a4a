// Stands in for libFuzzer where the compiler has none: runs every file of a
// corpus, then a number of inputs that are mutations of them, or bytes by
// chance. A crash, an uncaught exception or a sanitizer's report fails the run;
// the seed, which is printed first, makes it repeat.
//
//   x_fuzz RUNS SEED CORPUS     SEED: a number, or "any"
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "dtune/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

std::vector<Bytes> read_corpus(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(root)) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  } else {
    paths.push_back(root);
  }
  std::sort(paths.begin(), paths.end());  // the same order on every machine
  std::vector<Bytes> corpus;
  for (const auto& path : paths) corpus.push_back(read_bytes(path));
  if (corpus.empty()) corpus.emplace_back();
  return corpus;
}

void mutate_once(Bytes& bytes, const std::vector<Bytes>& corpus,
                 dtune::Rng& rng) {
  constexpr uint8_t kTelling[] = {0,   1,   0x7f, 0x80, 0xff, '\n', ':',  '[',
                                  '{', '-', '"',  0xdf, ' ',  0xc6, 0x9f, '&'};
  const size_t at = bytes.empty() ? 0 : rng.below(bytes.size());
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (rng.below(7)) {
    case 0:  // flip a bit
      if (!bytes.empty()) bytes[at] ^= uint8_t(1U << rng.below(8));
      break;
    case 1:  // set a byte that means something in many formats
      if (!bytes.empty()) bytes[at] = kTelling[rng.below(std::size(kTelling))];
      break;
    case 2:  // cut the end off
      bytes.resize(at);
      break;
    case 3:  // leave a piece out
      bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(
                                     rng.below(bytes.size() - at + 1)));
      break;
    case 4:  // insert
      bytes.insert(begin, kTelling[rng.below(std::size(kTelling))]);
      break;
    case 5: {  // repeat a piece
      const Bytes piece(begin, begin + static_cast<std::ptrdiff_t>(
                                           rng.below(bytes.size() - at + 1)));
      if (bytes.size() < (1U << 16)) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
      break;
    }
    default: {  // splice with another input
      const Bytes& other = corpus[rng.below(corpus.size())];
      const size_t from = other.empty() ? 0 : rng.below(other.size());
      bytes.resize(at);
      bytes.insert(bytes.end(),
                   other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.end());
    }
  }
}

Bytes random_bytes(dtune::Rng& rng) {
  Bytes bytes(rng.below(uint64_t{1} << rng.below(12)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.below(256));
  return bytes;
}

Bytes make_input(const std::vector<Bytes>& corpus, dtune::Rng& rng) {
  if (rng.below(4) == 0) return random_bytes(rng);
  Bytes bytes = corpus[rng.below(corpus.size())];
  const uint64_t mutations = 1 + rng.below(8);
  for (uint64_t k = 0; k < mutations; ++k) mutate_once(bytes, corpus, rng);
  return bytes;
}

uint64_t read_seed(const std::string& text) {
  if (text != "any") return std::strtoull(text.c_str(), nullptr, 10);
  return std::random_device{}();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s RUNS SEED CORPUS\n", argv[0]);
    return 2;
  }
  const uint64_t runs = std::strtoull(argv[1], nullptr, 10);
  const uint64_t seed = read_seed(argv[2]);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // it is wanted where the run does not end
  dtune::Rng rng(seed);
  const std::vector<Bytes> corpus = read_corpus(argv[3]);
  for (const Bytes& bytes : corpus) {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  for (uint64_t i = 0; i < runs; ++i) {
    const Bytes bytes = make_input(corpus, rng);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs of the corpus and %llu others: no crash\n",
              corpus.size(), static_cast<unsigned long long>(runs));
  return 0;
}
