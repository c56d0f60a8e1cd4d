// IntrusiveList: members that know their own place, so that each leaves in constant time and without memory
// of its own. A member is in at most one list of a kind; it leaves at its destruction.
#ifndef SLICE_PROXY_STREAM_INTRUSIVE_LIST_H
#define SLICE_PROXY_STREAM_INTRUSIVE_LIST_H

namespace slice::proxy {

template <class Tag>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { unlink(); }
  bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (next_ == nullptr) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <class T, class U>
  friend class IntrusiveList;
  ListHook* previous_ = nullptr;
  ListHook* next_ = nullptr;
};

// Of T, which derives from ListHook<Tag>.
template <class T, class Tag>
class IntrusiveList {
 public:
  IntrusiveList() { head_.next_ = head_.previous_ = &head_; }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    while (!empty()) front()->ListHook<Tag>::unlink();
    head_.next_ = head_.previous_ = nullptr;
  }
  bool empty() const { return head_.next_ == &head_; }
  T* front() const { return static_cast<T*>(head_.next_); }
  void push_back(T& member) {
    auto* hook = static_cast<ListHook<Tag>*>(&member);
    hook->unlink();
    hook->previous_ = head_.previous_;
    hook->next_ = &head_;
    head_.previous_->next_ = hook;
    head_.previous_ = hook;
  }
  // The member behind `member`, or null at the end.
  T* after(const T& member) const {
    auto* next = static_cast<const ListHook<Tag>*>(&member)->next_;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }
  // Everything of `other`, behind what is here.
  void take_all(IntrusiveList& other) {
    while (!other.empty()) push_back(*other.front());
  }

 private:
  ListHook<Tag> head_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_STREAM_INTRUSIVE_LIST_H
