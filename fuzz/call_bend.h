// One thing about a call that is not as it should be: a bend of one argument, made just before phase one sees it.
#pragma once

#include <string>
#include <vector>

#include "fuzz/input.h"
#include "gradus/gradus.h"
#include "testing/call.h"

namespace gradus::fuzz {

class Bend {
  public:
    Bend(Input& in, const testing::Call& call);
    ~Bend();
    Bend(const Bend&) = delete;
    Bend& operator=(const Bend&) = delete;

    void apply(std::vector<gradusArg>& args);
    const std::string& argument() const { return argument_; }
    std::string words() const;
    // No reading of the rules takes such a call.
    bool must_be_refused() const;
    // f64 is golden's alone.
    bool may_make_doubles() const { return kind_ == dtype; }
    // An output may then lie where an input lies.
    bool may_move_outputs() const { return kind_ == far_address || kind_ == twice; }
    const std::string& misspelled() const { return misspelled_; }

  private:
    enum Kind {
        dtype,
        rank,
        size,
        stride,
        offset,
        storage,
        format,
        no_address,
        far_address,
        twice,
        kFirstOfAny,  // from here on of any argument
        null = kFirstOfAny,
        dead,
        number,
        other_object,
        other_kind,
        left_out,
        doubled,
        misnamed,
        value,
        kKinds
    };
    bool of_tensor() const { return kind_ < kFirstOfAny; }
    void bend_tensor(gradusArg& arg, const std::vector<gradusArg>& args);
    void bend_any(gradusArg& arg, std::vector<gradusArg>& args);
    void give_back();

    Kind kind_;
    std::string argument_, misspelled_;
    uint64_t choice_, other_;  // what the bend does with them is its own
    bool is_tensor_ = false;
    std::vector<aclTensor*> tensors_;
    std::vector<aclIntArray*> arrays_;
};

}  // namespace gradus::fuzz
