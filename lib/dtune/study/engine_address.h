// Addresses of the engines that run programs on many machines, as `nodes:` and
// `dtune submit --to` have them.
#pragma once

#include <map>
#include <span>
#include <string>

#include "dtune/base/clock.h"

namespace dtune {

// "slurm://gpu?max=8&time=4h": engine, place, values by key.
struct EngineAddress {
  std::string engine;  // "slurm"
  std::string place;   // partition, namespace, role, ...; "" is the default one
  std::map<std::string, std::string> values;
  std::string text;  // as it was written

  // "" where the key was not given.
  std::string value(const std::string& key) const;
};

// Is written as such an address, of whatever engine.
bool is_engine_address(const std::string& text);

// %xx stands for a byte, as in every URL. Throws Error(config) where the form
// is another, a key is there twice, a value is empty, or a control character
// is among the values.
EngineAddress parse_engine_address(const std::string& text);

// Throws Error(config) with "did you mean" for another engine, or a key that is
// not among `keys`.
void check_engine(const EngineAddress& address,
                  std::span<const std::string> engines);
void check_engine_keys(const EngineAddress& address,
                       std::span<const std::string> keys);

// The whole number of a key; `otherwise` where it was not given. Throws
// Error(config) where it is no number from `least` to `most`.
int engine_number(const EngineAddress& address, const std::string& key,
                  int otherwise, int least, int most);

// The time of a key, as parse_duration reads it. Throws Error(config).
Duration engine_duration(const EngineAddress& address, const std::string& key,
                         const std::string& otherwise);

}  // namespace dtune
