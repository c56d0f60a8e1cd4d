// FairOrder: what is remembered of clients' calls, in the order of age, and whose it is. Where it gets too
// much, the oldest of those goes who holds the most: first the client's address that holds the most, among
// its users the one that does. So nobody makes the memory of other clients' calls go by calling much, nor a
// host by calling as many users. One loop.
//
//   FairOrder<Key> order;
//   auto place = order.add(holder, weight, now, key);   // the newest
//   while (order.weight() > most) forget(order.next_to_go().item);   // which ends with order.erase(place)
#ifndef SLICE_DIRSERVER_STORE_FAIR_ORDER_H
#define SLICE_DIRSERVER_STORE_FAIR_ORDER_H

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/ip_address.h"
#include "common/loop.h"

namespace slice::dirserver {

// Whose share something counts in.
struct Holder {
  IpAddress address;
  std::uint32_t uid = 0;
  auto operator<=>(const Holder&) const = default;
};

template <class Item>
class FairOrder {
 private:
  struct Node;

 public:
  using Place = typename std::list<Node>::iterator;

  // Behind all others in age; `weight` is in the caller's unit and at least 1. The place is valid until
  // erase().
  Place add(Holder holder, std::size_t weight, MonoTime at, Item item);
  void erase(Place place);

  bool empty() const { return by_age_.empty(); }
  std::size_t size() const { return by_age_.size(); }
  std::size_t weight() const { return weight_; }
  // Of all there is; not where it is empty.
  const Item& oldest() const { return by_age_.front().item; }
  MonoTime oldest_time() const { return by_age_.front().at; }
  // The oldest of the largest holder; not where it is empty.
  const Item& next_to_go() const;

 private:
  struct Node {
    Item item;
    Holder holder;
    std::size_t weight;
    MonoTime at;
    typename std::list<Place>::iterator in_share;
  };
  struct Share {
    std::size_t weight = 0;
    std::list<Place> by_age;
  };
  void weigh(Holder holder, Share& share, std::size_t now);

  std::list<Node> by_age_;  // oldest first
  std::map<Holder, Share> shares_;
  std::map<IpAddress, std::size_t> addresses_;                         // their weight
  std::set<std::pair<std::size_t, IpAddress>> largest_address_;        // (weight, address)
  std::set<std::tuple<IpAddress, std::size_t, std::uint32_t>> users_;  // (address, weight, uid)
  std::size_t weight_ = 0;
};

template <class Item>
auto FairOrder<Item>::add(Holder holder, std::size_t weight, MonoTime at, Item item) -> Place {
  Place place = by_age_.insert(by_age_.end(), Node{std::move(item), holder, weight, at, {}});
  Share& share = shares_[holder];
  place->in_share = share.by_age.insert(share.by_age.end(), place);
  weigh(holder, share, share.weight + weight);
  return place;
}

template <class Item>
void FairOrder<Item>::erase(Place place) {
  Holder holder = place->holder;
  Share& share = shares_[holder];
  share.by_age.erase(place->in_share);
  weigh(holder, share, share.weight - place->weight);
  by_age_.erase(place);
  if (share.by_age.empty()) shares_.erase(holder);
}

template <class Item>
const Item& FairOrder<Item>::next_to_go() const {
  IpAddress address = largest_address_.rbegin()->second;
  auto behind = users_.lower_bound({address, SIZE_MAX, UINT32_MAX});
  std::uint32_t uid = std::get<2>(*std::prev(behind));
  return shares_.find({address, uid})->second.by_age.front()->item;
}

// A holder has `now` from here on; one with nothing is in none of the orders.
template <class Item>
void FairOrder<Item>::weigh(Holder holder, Share& share, std::size_t now) {
  std::size_t was = std::exchange(share.weight, now);
  std::size_t& all = addresses_[holder.address];
  largest_address_.erase({all, holder.address});
  users_.erase({holder.address, was, holder.uid});
  all = all - was + now;
  weight_ = weight_ - was + now;
  if (now > 0) users_.insert({holder.address, now, holder.uid});
  if (all > 0) {
    largest_address_.insert({all, holder.address});
  } else {
    addresses_.erase(holder.address);
  }
}

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_STORE_FAIR_ORDER_H
