"""What a classifier does to groups, read off tables of counts that silos add up; no row moves."""
