// Who else is at work on this machine.
#pragma once

namespace gradus::cli {

class Others {
  public:
    Others();
    // Of the time that all CPUs had since the object was made: the share that went to other processes, or to other
    // guests of the host. 0 where the system does not tell.
    double share() const;

  private:
    double start_, busy_, own_;  // seconds
};

}  // namespace gradus::cli
