// A file that lines are added to, for as long as the process lives. Programs close files that they did not open, and
// open others of their own under the same number: before each line it is made sure that the file is still the one.
#pragma once

#include <sys/types.h>

#include <string>

namespace gradus::sanitize {

class Lines {
  public:
    Lines() = default;                         // goes nowhere
    explicit Lines(int file) : file_(file) {}  // the program's own, such as stderr
    explicit Lines(const std::string& path);   // is made if it is not there

    bool wanted() const { return file_ >= 0 || !path_.empty(); }
    void add(const std::string& text);

  private:
    bool still_open() const;
    void open();

    std::string path_;  // from the root; empty: not ours
    int file_ = -1;
    dev_t device_ = 0;
    ino_t number_ = 0;
};

}  // namespace gradus::sanitize
