// What a worker knows of the gang that it joins.
#pragma once

#include <string>

namespace dtune {

// A worker's place in the gang of a trial that takes several.
struct RankInfo {
  std::string gang;  // names this lease of the trial, e.g. "7.2"
  int member = 0;    // 0, 1, ... members - 1; data + ps: the servers come last
  int members = 1;
  std::string endpoint;    // of the gang server
  std::string server_key;  // its public CURVE key (Z85); "": none is needed
  std::string address;     // to be reached at by the others; "": by the route
                           // to the endpoint
  // This process's own keys where server_key is given; never on the wire.
  std::string public_key;
  std::string secret_key;
};

}  // namespace dtune
