#include <fstream>

#include "fixture.h"
#include <doctest/doctest.h>

#include "dtune/base/safetensors.h"

using namespace dtune;

namespace {

namespace fs = std::filesystem;

// The weights and optimizer state that a checkpoint holds, as bytes.
std::string tensors_in(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  const SafetensorsFile file(path);
  return bytes.substr(file.header().data_begin);
}

void damage(const std::filesystem::path& path, size_t from_end) {
  std::string bytes = read_file(path);
  bytes[bytes.size() - from_end] ^= 0x10;
  write_file_atomic(path, bytes, false);
}

// Whether the trial starts; if not, the error must be of the data.
bool starts(Workshop& shop, const TrialAssignment& assignment) {
  try {
    shop.start(assignment);
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.kind() == ErrorKind::data);
    CHECK(text.find("trial-3.safetensors: ") == text.rfind('/') + 1);
    return false;
  }
}

}  // namespace

TEST_CASE("a small network learns synthetic images") {
  Workshop shop;
  const auto session = shop.start(shop.assignment());
  const StepReport report = Workshop::run(*session, 4);
  CHECK(report.step == 4);
  CHECK(report.metrics.at("val_accuracy") > 0.9);
  CHECK(report.metrics.at("val_auc") > 0.95);
  CHECK(report.metrics.at("val_loss") < 0.5);
  CHECK(report.metrics.at("train_accuracy") > 0.8);
  CHECK(report.metrics.at("train_loss") < 0.8);
  CHECK(report.seconds > 0);
  CHECK(session->resident_bytes() > 1000);
  CHECK(session->progress().fraction == 1);
  CHECK(session->progress().samples_per_second > 0);
}

TEST_CASE("every optimizer learns, with every schedule, augmented or not") {
  Workshop shop;
  for (const auto optimizer :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    Recipe recipe = small_recipe();
    recipe.train.optimizer = optimizer;
    recipe.train.lr = optimizer == OptimizerKind::sgd ? 0.05 : 0.01;
    recipe.train.nesterov = true;
    recipe.train.l2 = 1e-4;
    recipe.train.clip_norm = 5;
    recipe.train.label_smoothing = 0.05;
    recipe.train.schedule.kind = ScheduleKind::cosine;
    recipe.train.schedule.warmup = 0.5;
    recipe.data.augment.shift = 1;
    recipe.data.balance = true;
    const auto session = shop.start(shop.assignment(recipe));
    CAPTURE(std::string(to_string(optimizer)));
    CHECK(Workshop::run(*session, 4).metrics.at("val_accuracy") > 0.6);
  }
}

TEST_CASE("a trial that was resumed ends as one that ran through") {
  Workshop shop;
  for (const auto optimizer : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    Recipe recipe = small_recipe();
    recipe.train.optimizer = optimizer;
    recipe.train.lr = 0.01;
    recipe.model.arch = "resnet18";  // batch norm: buffers count too
    recipe.model.width = 4;
    recipe.train.step_samples = 100;  // ends within an epoch
    TrialAssignment through = shop.assignment(recipe);
    through.checkpoint = shop.path("through.safetensors");
    const auto whole = shop.start(through);
    const StepReport expected = Workshop::run(*whole, 4);

    TrialAssignment parted = shop.assignment(recipe);
    { Workshop::run(*shop.start(parted), 2); }
    parted.resume_step = 2;
    parted.attempt = 2;
    const auto resumed = shop.start(parted);
    CHECK(resumed->steps_done() == 2);
    const StepReport report = Workshop::run(*resumed, 2);
    CHECK(report.step == 4);
    CHECK(report.metrics == expected.metrics);
    CHECK(tensors_in(parted.checkpoint) == tensors_in(through.checkpoint));
  }
}

TEST_CASE("a level trains from the start on what data.limit keeps") {
  Recipe recipe = small_recipe();
  recipe.data.normalize = false;  // a limit changes mean and deviation
  recipe.data.balance = true;
  recipe.data.augment.mixup = 0.4;
  recipe.train.epochs = 2;
  recipe.train.schedule.kind = ScheduleKind::cosine;
  Workshop shop(recipe.data);
  Recipe levels = recipe;
  levels.fidelity = {FidelityKind::data_limit, 3};
  TrialAssignment assignment = shop.assignment(levels);
  assignment.horizon = 3;
  const auto session = shop.start(assignment);
  for (const int64_t images : {100, 200, 400}) {
    const StepReport report = Workshop::run(*session, 1);
    recipe.data.limit = images;
    Workshop other(recipe.data);
    const auto alone = other.start(other.assignment(recipe));
    const StepReport end = Workshop::run(*alone, 2);
    CAPTURE(images);
    CHECK(report.metrics.at("val_loss") == end.metrics.at("val_loss"));
    CHECK(report.metrics.at("val_auc") == end.metrics.at("val_auc"));
  }
}

TEST_CASE("a trial of levels goes on after a pause and a stop as without") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.epochs = 1.5;
  recipe.fidelity = {FidelityKind::data_limit, 3};
  TrialAssignment through = shop.assignment(recipe);
  through.horizon = 3;
  through.checkpoint = shop.path("through.safetensors");
  const StepReport expected = Workshop::run(*shop.start(through), 3);

  TrialAssignment parted = shop.assignment(recipe);
  parted.horizon = 3;
  { Workshop::run(*shop.start(parted), 1); }
  parted.resume_step = 1;
  parted.attempt = 2;
  const auto resumed = shop.start(parted);
  Workshop::run(*resumed, 1);
  const std::atomic<bool> stop = true;
  CHECK_THROWS_AS(resumed->run_step(stop), StepStopped);
  CHECK(Workshop::run(*resumed, 1).metrics == expected.metrics);
  CHECK(resumed->progress().fraction == 1);
  CHECK(tensors_in(parted.checkpoint) == tensors_in(through.checkpoint));
}

TEST_CASE("averages of weights are judged, kept and resumed") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.model.arch = "resnet18";
  recipe.model.width = 4;
  const auto train = [&](double ema, bool paused) {
    recipe.train.ema = ema;
    TrialAssignment assignment = shop.assignment(recipe);
    if (!paused) return Workshop::run(*shop.start(assignment), 4).metrics;
    Workshop::run(*shop.start(assignment), 2);
    assignment.resume_step = 2;
    assignment.attempt = 2;
    return Workshop::run(*shop.start(assignment), 2).metrics;
  };
  const fs::path checkpoint = shop.assignment().checkpoint;
  const auto values = [&](const char* name) {
    const SafetensorsFile file(checkpoint);
    const auto& tensor = file.header().tensors.at(name);
    const auto found = file.floats(name, tensor.shape);
    return std::vector<float>(found.begin(), found.end());
  };
  const auto plain = train(0, false);
  const std::vector<float> weights = values("weights");
  const auto averaged = train(0.9, false);
  const std::string through = tensors_in(checkpoint);
  // The training is the same; what is judged is not.
  CHECK(values("weights") == weights);
  CHECK(averaged.at("train_loss") == plain.at("train_loss"));
  CHECK(averaged.at("val_loss") != plain.at("val_loss"));
  CHECK(values("average_weights") != weights);
  CHECK(values("average_buffers") != values("buffers"));
  CHECK(train(0.9, true) == averaged);
  CHECK(tensors_in(checkpoint) == through);
}

TEST_CASE("an average of no memory is the network itself") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.ema = 1e-12;
  const auto averaged = Workshop::run(*shop.start(shop.assignment(recipe)), 1);
  recipe.train.ema = 0;
  const auto plain = Workshop::run(*shop.start(shop.assignment(recipe)), 1);
  CHECK(averaged.metrics.at("val_loss") ==
        doctest::Approx(plain.metrics.at("val_loss")).epsilon(1e-4));
}

TEST_CASE("a network learns from mixed, cropped and jittered images") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.data.augment = {
      .crop = 1, .cutout = 3, .jitter = 0.2, .mixup = 0.2, .cutmix = 0.2};
  recipe.data.balance = true;
  const StepReport report =
      Workshop::run(*shop.start(shop.assignment(recipe)), 4);
  CHECK(report.metrics.at("val_accuracy") > 0.8);
  CHECK(report.metrics.at("train_accuracy") > 0.4);
}

TEST_CASE("weights do not depend on the size of a step") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.epochs = 2;
  TrialAssignment epochs = shop.assignment(recipe);
  epochs.horizon = 2;
  epochs.checkpoint = shop.path("epochs.safetensors");
  Workshop::run(*shop.start(epochs), 2);

  recipe.train.step_samples = 90;  // ends inside batches
  TrialAssignment samples = shop.assignment(recipe);
  samples.horizon = 9;  // ceil(2 * 400 / 90)
  Workshop::run(*shop.start(samples), 9);
  CHECK(tensors_in(samples.checkpoint) == tensors_in(epochs.checkpoint));
}

TEST_CASE("equal assignments give equal bits, other seeds others") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  assignment.deterministic = true;
  Workshop::run(*shop.start(assignment), 2);
  const std::string first = tensors_in(assignment.checkpoint);
  Workshop::run(*shop.start(assignment), 2);
  CHECK(tensors_in(assignment.checkpoint) == first);
  assignment.seed = 12;
  Workshop::run(*shop.start(assignment), 2);
  CHECK(tensors_in(assignment.checkpoint) != first);
}

TEST_CASE("sessions that take turns in one worker do not disturb each other") {
  Workshop shop;
  TrialAssignment one = shop.assignment();
  one.checkpoint = shop.path("one.safetensors");
  TrialAssignment two = shop.assignment();
  two.checkpoint = shop.path("two.safetensors");
  const auto a = shop.start(one);
  const auto b = shop.start(two);
  const StepReport first = Workshop::run(*a, 1);
  CHECK(Workshop::run(*b, 1).metrics == first.metrics);
  const StepReport second = Workshop::run(*a, 1);
  CHECK(Workshop::run(*b, 1).metrics == second.metrics);
}

TEST_CASE("runners of one process share what they map of the data") {
  Workshop shop;
  const TrialAssignment assignment = shop.assignment();
  const auto mappings = [&] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.ends_with(assignment.prepared_data.string()) ? 1 : 0;
    }
    return count;
  };
  CHECK(mappings() == 0);
  const auto one = shop.start(assignment);
  const int once = mappings();
  CHECK(once > 0);
  const auto runner = load_engine().make_runner(1);
  const auto two = runner->start(assignment);
  CHECK(mappings() == once);
}

TEST_CASE("nothing counts of a step that was stopped") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const auto session = shop.start(assignment);
  const std::atomic<bool> stop = true;
  CHECK_THROWS_AS(session->run_step(stop), StepStopped);
  CHECK(session->steps_done() == 0);
  Workshop::run(*session, 1);
  CHECK_THROWS_AS(session->run_step(stop), StepStopped);
  CHECK(session->steps_done() == 1);
  const StepReport report = Workshop::run(*session, 1);
  CHECK(report.step == 2);

  assignment.checkpoint = shop.path("quiet.safetensors");
  CHECK(Workshop::run(*shop.start(assignment), 2).metrics == report.metrics);
}

TEST_CASE("a step that was finished but not heard of is not trained again") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  const StepReport lost = Workshop::run(*shop.start(assignment), 2);
  assignment.resume_step = 1;
  const auto session = shop.start(assignment);
  CHECK(session->steps_done() == 1);
  const StepReport again = Workshop::run(*session, 1);
  CHECK(again.step == 2);
  CHECK(again.metrics == lost.metrics);
  CHECK(again.seconds == doctest::Approx(lost.seconds));
  CHECK(Workshop::run(*session, 1).step == 3);
}

TEST_CASE("a learning rate far too large diverges, with step and rate") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.lr = 1e6;
  const auto session = shop.start(shop.assignment(recipe));
  try {
    Workshop::run(*session, 1);
    FAIL("it must diverge");
  } catch (const TrialFailure& failure) {
    CHECK(failure.reason() == Reason::diverged);
    const std::string text = failure.what();
    CAPTURE(text);
    CHECK(text.starts_with("step 1: diverged"));
    CHECK(text.find("1e+06") != std::string::npos);
  }
}

TEST_CASE("a checkpoint that cannot be used is refused with the place") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  Workshop::run(*shop.start(assignment), 2);
  assignment.resume_step = 2;
  const std::string good = read_file(assignment.checkpoint);
  const auto refused = [&] {
    const bool started = starts(shop, assignment);
    write_file_atomic(assignment.checkpoint, good, false);
    return !started;
  };
  CHECK_FALSE(refused());
  damage(assignment.checkpoint, 5);  // a weight
  CHECK(refused());
  damage(assignment.checkpoint, good.size() - 20);  // the header
  CHECK(refused());
  for (const std::string text : {R"(\"step\":2)", R"("position":")",
                                 R"("updates":")", R"(\"val_accuracy\":)"}) {
    std::string changed = good;
    const size_t at = changed.find(text);
    REQUIRE_MESSAGE(at != std::string::npos, text);
    const size_t digit = at + text.size() - (text.back() == '2' ? 1 : 0);
    changed[digit] = changed[digit] == '1' ? '3' : '1';
    write_file_atomic(assignment.checkpoint, changed, false);
    CHECK_MESSAGE(refused(), text);
  }
  write_file_atomic(assignment.checkpoint, good.substr(0, 1000), false);
  CHECK(refused());
  write_file_atomic(assignment.checkpoint, "", false);
  CHECK(refused());
  std::filesystem::remove(assignment.checkpoint);
  CHECK(refused());
  ++assignment.seed;  // another trial's
  CHECK(refused());
  --assignment.seed;
  assignment.recipe.model.width = 8;
  CHECK(refused());
  assignment.recipe.model.width = 4;
  assignment.recipe.train.optimizer = OptimizerKind::adam;
  CHECK(refused());
  // From step 0 it can always start.
  assignment.resume_step = 0;
  CHECK(starts(shop, assignment));
}

TEST_CASE("a trial goes on from a checkpoint that is behind the record") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  Workshop::run(*shop.start(assignment), 2);
  assignment.resume_step = 3;  // of a generation that a power cut has taken
  const auto session = shop.start(assignment);
  CHECK(session->steps_done() == 2);
  CHECK(Workshop::run(*session, 1).step == 3);
}

TEST_CASE("a checkpoint that cannot be written fails the step, not the trial") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  Workshop::run(*shop.start(assignment), 1);
  assignment.resume_step = 1;
  const auto session = shop.start(assignment);
  const auto kept = shop.path("kept.safetensors");
  std::filesystem::rename(assignment.checkpoint, kept);
  std::filesystem::create_directory(assignment.checkpoint);  // in the way
  CHECK_THROWS_AS(Workshop::run(*session, 1), Error);
  CHECK(session->steps_done() == 1);
  std::filesystem::remove(assignment.checkpoint);
  std::filesystem::rename(kept, assignment.checkpoint);
  CHECK(Workshop::run(*session, 1).step == 2);
}

TEST_CASE("a device that is not there is named, with what to do") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.device = "cuda:99";
  CHECK_THROWS_WITH_AS(shop.start(shop.assignment(recipe)),
                       doctest::Contains("train.device: 'cuda:99'"), Error);
  recipe.train.device = "gpu";
  CHECK_THROWS_WITH_AS(shop.start(shop.assignment(recipe)),
                       doctest::Contains("is not a device (use auto, cpu"),
                       Error);
}

TEST_CASE("a model that does not fit the images is named before training") {
  Workshop shop;
  Recipe recipe = small_recipe();
  LayerSpec conv;
  conv.kind = LayerKind::conv;
  conv.name = "conv1";
  conv.channels = 4;
  conv.kernel = 20;
  conv.padding = 0;
  recipe.model.layers = {conv};
  CHECK_THROWS_WITH_AS(shop.start(shop.assignment(recipe)),
                       doctest::Contains("conv1"), Error);
}

TEST_CASE("an epoch of one batch larger than the data is trained") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.train.batch_size = 100000;
  const auto session = shop.start(shop.assignment(recipe));
  CHECK(Workshop::run(*session, 2).step == 2);
}

TEST_CASE("a model larger than the memory fails for that reason") {
  Workshop shop;
  Recipe recipe = small_recipe();
  for (int i = 0; i < 64; ++i) {  // 17 GB each
    LayerSpec wide;
    wide.kind = LayerKind::linear;
    wide.name = "wide" + std::to_string(i);
    wide.channels = 65536;
    recipe.model.layers.push_back(wide);
  }
  try {
    shop.start(shop.assignment(recipe));
    FAIL("it must not start");
  } catch (const TrialFailure& failure) {
    CHECK(failure.reason() == Reason::out_of_memory);
    CHECK(std::string(failure.what()).find("trial 3: ") == 0);
  }
}
