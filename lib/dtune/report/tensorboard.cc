#include "dtune/report/tensorboard.h"

#include <array>
#include <set>

#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/report/output_folder.h"
#include "dtune/report/protobuf.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kCastagnoli = 0x82f63b78;  // reflected

std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ (crc & 1 ? kCastagnoli : 0);
    }
    table[byte] = crc;
  }
  return table;
}

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::string record(const ProtoMessage& message) {
  const std::string& bytes = message.bytes();
  const std::string length = little_endian(bytes.size(), 8);
  return length + little_endian(masked_crc32c(length), 4) + bytes +
         little_endian(masked_crc32c(bytes), 4);
}

// Event: wall_time 1, step 2, file_version 3, summary 5.
ProtoMessage event(double wall_seconds, int step) {
  return ProtoMessage().real(1, wall_seconds).integer(2, step);
}

// Summary.Value: tag 1, simple_value 2, tensor 8, metadata 9.
ProtoMessage scalar(const std::string& tag, double value) {
  return ProtoMessage().message(
      1, ProtoMessage().text(1, tag).real32(2, static_cast<float>(value)));
}

// SummaryMetadata.plugin_data 1 {plugin_name 1, content 2}; the tensor is an
// empty one of DT_FLOAT.
ProtoMessage hparams(const std::string& tag, const ProtoMessage& content) {
  const auto plugin = ProtoMessage().text(1, "hparams").message(2, content);
  const auto tensor = ProtoMessage().integer(1, 1).message(2, ProtoMessage());
  return ProtoMessage().message(
      1, ProtoMessage().text(1, tag).message(8, tensor).message(
             9, ProtoMessage().message(1, plugin)));
}

// google.protobuf.Value: number_value 2, string_value 3, bool_value 4.
ProtoMessage value_message(const Value& value) {
  ProtoMessage message;
  if (const auto* flag = std::get_if<bool>(&value)) {
    message.integer(4, *flag);
  } else if (const auto number = as_number(value)) {
    message.real(2, *number);
  } else {
    message.text(3, to_string(value));
  }
  return message;
}

// hparams.DataType: string 1, bool 2, float64 3. HParamInfo: name 1, type 4,
// domain_discrete 5, domain_interval 6.
ProtoMessage parameter_message(const Parameter& parameter) {
  ProtoMessage message;
  message.text(1, parameter.name);
  switch (parameter.kind) {
    case ParameterKind::boolean:
      return message.integer(4, 2);
    case ParameterKind::categorical: {
      ProtoMessage choices;
      for (const Value& choice : parameter.choices) {
        choices.message(1, value_message(choice));
      }
      const bool words =
          std::holds_alternative<std::string>(parameter.choices.front());
      return message.integer(4, words ? 1 : 3).message(5, choices);
    }
    case ParameterKind::real:
    case ParameterKind::integer:
      break;
  }
  return message.integer(4, 3).message(
      6, ProtoMessage().real(1, parameter.low).real(2, parameter.high));
}

std::set<std::string> metric_names(const Study& study) {
  std::set<std::string> names;
  for (const Trial& trial : study.trials) {
    for (const StepReport& report : trial.curve) {
      for (const auto& [name, value] : report.metrics) names.insert(name);
    }
  }
  return names;
}

// HParamsPluginData: version 1, experiment 2, session_start_info 3,
// session_end_info 4. Experiment: time_created_secs 3, hparam_infos 4,
// metric_infos 5, name 6. MetricInfo: name 1 {group 1, tag 2}, display_name 3.
ProtoMessage experiment(const Study& study) {
  ProtoMessage message;
  message.real(3, double(study.created_ms) / 1000);
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    message.message(4, parameter_message(parameter));
  }
  for (const std::string& name : metric_names(study)) {
    message.message(
        5,
        ProtoMessage().message(1, ProtoMessage().text(2, name)).text(3, name));
  }
  message.text(6, study.recipe.study);
  return ProtoMessage().integer(1, 0).message(2, message);
}

double started_at(const Study& study, const Trial& trial) {
  const int64_t start =
      trial.started_ms > 0 ? trial.started_ms : study.created_ms;
  return double(start) / 1000;
}

// SessionStartInfo: hparams 1 {key 1, value 2}, group_name 4, start_time_secs
// 5.
ProtoMessage session_start(const Study& study, const Trial& trial) {
  ProtoMessage message;
  for (const auto& [name, value] : trial.point) {
    message.message(
        1, ProtoMessage().text(1, name).message(2, value_message(value)));
  }
  message.text(4, fmt::format("trial {}", trial.id));
  message.real(5, started_at(study, trial));
  return ProtoMessage().integer(1, 0).message(3, message);
}

// SessionEndInfo: status 1 (success 1, failure 2, running 3), end_time_secs 2.
ProtoMessage session_end(const Trial& trial) {
  const bool ended = is_terminal(trial.state);
  const bool well =
      trial.state == TrialState::complete || trial.state == TrialState::cut;
  const auto message = ProtoMessage()
                           .integer(1, well    ? 1
                                       : ended ? 2
                                               : 3)
                           .real(2, double(trial.ended_ms) / 1000);
  return ProtoMessage().integer(1, 0).message(4, message);
}

std::string first_record(double wall_seconds) {
  return record(event(wall_seconds, 0).text(3, "brain.Event:2"));
}

std::string trial_file(const Study& study, const Trial& trial) {
  double wall = started_at(study, trial);
  std::string file = first_record(wall);
  file += record(event(wall, 0).message(
      5, hparams("_hparams_/session_start_info", session_start(study, trial))));
  for (const StepReport& report : trial.curve) {
    wall += report.seconds;
    for (const auto& [name, value] : report.metrics) {
      file += record(event(wall, report.step).message(5, scalar(name, value)));
    }
  }
  return file + record(event(wall, trial.steps())
                           .message(5, hparams("_hparams_/session_end_info",
                                               session_end(trial))));
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = crc_table();
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  crc ^= 0xffffffff;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

void write_tensorboard(const Study& study, const fs::path& folder) {
  // TensorBoard takes a file for the part of a run that its time stands for.
  const std::string name =
      fmt::format("events.out.tfevents.{}.dtune.1.0", study.created_ms / 1000);
  const double created = double(study.created_ms) / 1000;
  make_output_folder(folder);
  write_file_atomic(folder / name,
                    first_record(created) +
                        record(event(created, 0)
                                   .message(5, hparams("_hparams_/experiment",
                                                       experiment(study)))),
                    false);
  for (const Trial& trial : study.trials) {
    const fs::path own = folder / fmt::format("trial-{:04}", trial.id);
    make_output_folder(own);
    write_file_atomic(own / name, trial_file(study, trial), false);
  }
}

}  // namespace dtune
