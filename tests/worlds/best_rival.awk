# After a table of `dtune simulate`: the best of the rivals at each budget, and
# the first row's regret as a share of it. Rivals are what does not predict
# curves: all rows but those with freeze-thaw.
/^mean regret/ { inside = 1; next }
/^$/ { inside = 0 }
inside {
  rival = $0 !~ /freeze-thaw/
  for (i = 4; i <= NF; ++i) {
    if (!first) default_row[i] = $i
    if (rival && (!(i in best) || $i + 0 < best[i] + 0)) {
      best[i] = $i
      name[i] = $1 "+" $3
    }
  }
  columns = NF
  first = 1
}
END {
  if (!(4 in best)) exit
  printf "best rival"
  for (i = 4; i <= columns; ++i) printf "  %s (%s)", best[i], name[i]
  printf "\nits share "
  for (i = 4; i <= columns; ++i) {
    if (best[i] + 0 != 0) printf "  %.2f", default_row[i] / best[i]
    else printf "  -"
  }
  printf "\n\n"
}
