// One call, and all that golden says to it: the answer, its magnitude, and other answers to compare a wrong one with.
#pragma once

#include "cli/call/call.h"
#include "cli/judge/judge.h"

namespace gradus::cli {

class Question {
  public:
    // Runs golden twice: the answer in f64, and the magnitude.
    explicit Question(Call call);

    const Call& call() const { return call_; }
    bool has(const std::string& output) const { return answer_.count(output) != 0; }
    const Tensor& answer(const std::string& output) const { return answer_.at(output); }  // f64, or exact
    Subject subject(const std::string& output, const Values& got) const;
    Answers answers(const std::string& output);
    // One of the call's own dtypes, as another precision gives it.
    Tensor answer_as(const std::string& output, const char* precision) const;

  private:
    using Outputs = std::map<std::string, Tensor>;
    Outputs run(const Call& call, const char* precision, const std::string& mistake, const std::string& doing) const;
    std::optional<Outputs> mistaken(const FormulaMistake& mistake, const std::string& name, double amount);
    std::optional<Call> changed_by(std::string arguments, double amount) const;

    Call call_;
    Outputs answer_, magnitude_;
    std::map<std::string, std::optional<Outputs>> others_;  // by precision or mistake; of too many not those of sums
    int64_t kept_ = 0;                                      // elements of mistaken ones
};

// Every float input as f64 with the same values, and f64 outputs; or the outputs alone.
Call widened(const Call& call, bool inputs);

// The call with arguments changed as the catalogue's mistakes write it: "mask=not", "scale=1", "x=halves". Nothing: it
// has no such argument, or nothing would change.
std::optional<Call> changed(const Call& call, const std::string& arguments);

}  // namespace gradus::cli
