// The checks of `dtune doctor`.
#pragma once

#include <string>
#include <vector>

namespace dtune {

enum class Health { good, note, problem };

const char* to_string(Health health);  // "ok", "note", "problem"

struct Finding {
  std::string topic;  // "memory"
  Health health = Health::good;
  std::string what;    // "15.6 GiB, 12.1 GiB available"
  std::string remedy;  // what to do; "" where nothing has to be done
};

// Looks at this machine; loads LibTorch and measures it (some seconds).
std::vector<Finding> examine_machine();

// Looks at the way to a coordinator, "tcp://10.0.0.1:5555", as an agent of this
// machine would take it, and at allowed_ports(), if they are limited; takes
// some seconds where there is no answer.
std::vector<Finding> examine_connection(const std::string& endpoint,
                                        const std::string& token_file);

// Looks at the way to an engine, as 'dtune submit --to' would take it from this
// folder; runs the engine's own programs. Throws Error(config) for an
// address that cannot be read.
std::vector<Finding> examine_engine(const std::string& to);

}  // namespace dtune
