// Values of records as JSON texts for the database. Every number survives the
// round trip to the last bit, NaN and infinities included.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// {"lr":0.03,"width":32,"nesterov":true}. A whole real keeps its ".0"; reals
// that JSON has no word for become {"real":"nan"}, "inf" or "-inf".
std::string encode_point(const Point& point);
std::string encode_metrics(const std::map<std::string, double>& metrics);
std::string encode_unit(const std::vector<double>& unit);

// Throw Error(store) on anything that the functions above do not write.
Point decode_point(const std::string& json);
std::map<std::string, double> decode_metrics(const std::string& json);
std::vector<double> decode_unit(const std::string& json);

}  // namespace dtune
